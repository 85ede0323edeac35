#include "common/s3/profile.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/file/atomic_file.h"

namespace strata::s3 {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;

// Returns a file's sections; none: it is not there.
absl::StatusOr<Sections> ReadSections(const std::string& path) {
  if (path.empty()) return Sections();
  absl::StatusOr<std::string> text = ReadFile(path, kFileBytesMax);
  if (absl::IsNotFound(text.status())) return Sections();
  if (!text.ok()) return text.status();
  return ParseSections(*text, path);
}

// Returns the file that a variable names, or the one in the home folder; empty: there is none.
std::string FileOf(const Environment& environment, const std::string& variable,
                   const std::string& file) {
  const std::string named = Variable(environment, variable);
  if (!named.empty()) return named;
  const std::string home = Variable(environment, "HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.aws/", file);
}

}  // namespace

absl::StatusOr<Sections> ParseSections(absl::string_view text, const std::string& path) {
  Sections sections;
  std::map<std::string, std::string>* section = nullptr;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto wrong = [&](const char* why) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": line ", number, ": ", why));
    };
    const absl::string_view content = absl::StripAsciiWhitespace(line);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    if (absl::ascii_isspace(line[0])) continue;
    if (content[0] == '[') {
      // A comment may follow.
      const size_t end = content.find(']');
      if (end == absl::string_view::npos) return wrong("no ] follows");
      section = &sections[std::string(absl::StripAsciiWhitespace(content.substr(1, end - 1)))];
      continue;
    }
    const size_t equals = content.find('=');
    if (equals == absl::string_view::npos) return wrong("neither [SECTION] nor NAME = VALUE");
    if (section == nullptr) return wrong("no [SECTION] before it");
    const std::string name =
        absl::AsciiStrToLower(absl::StripAsciiWhitespace(content.substr(0, equals)));
    (*section)[name] = std::string(absl::StripAsciiWhitespace(content.substr(equals + 1)));
  }
  return sections;
}

std::string Profile::Field(const std::string& field) const {
  const auto found = fields.find(field);
  return found == fields.end() ? "" : found->second;
}

absl::StatusOr<Profile> ReadProfile(const Environment& environment) {
  const std::string named = Variable(environment, "AWS_PROFILE");
  Profile profile = {
      .name = named.empty() ? "default" : named,
      .credentials_file = FileOf(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"),
      .config_file = FileOf(environment, "AWS_CONFIG_FILE", "config")};
  absl::StatusOr<Sections> credentials = ReadSections(profile.credentials_file);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<Sections> config = ReadSections(profile.config_file);
  if (!config.ok()) return config.status();
  // The file of settings says [profile NAME], but [default].
  const std::string long_name = absl::StrCat("profile ", profile.name);
  const std::string config_name = config->contains(long_name) ? long_name : profile.name;
  const bool is_there = credentials->contains(profile.name) || config->contains(config_name);
  if (!named.empty() && !is_there) {
    return absl::FailedPreconditionError(absl::StrCat("AWS_PROFILE is ", named, ", which neither ",
                                                      profile.credentials_file, " nor ",
                                                      profile.config_file, " has"));
  }
  profile.fields = (*credentials)[profile.name];
  profile.fields.merge((*config)[config_name]);
  return profile;
}

}  // namespace strata::s3
