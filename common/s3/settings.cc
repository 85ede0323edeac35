#include "common/s3/settings.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/os/atomic_file.h"

namespace strata::s3 {
namespace {

constexpr char kScheme[] = "s3://";

bool IsBucket(const std::string& name) {
  if (name.size() < 3 || name.size() > 63 || absl::StrContains(name, "..")) return false;
  return absl::ascii_isalnum(name.front()) && absl::ascii_isalnum(name.back()) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '.' || c == '-';
         });
}

absl::Status ReadAddress(const std::string& address, Settings* settings) {
  // Keys have at most 1,024 bytes, names of objects 512.
  constexpr size_t kPrefixBytesMax = 500;
  absl::string_view rest = address;
  absl::ConsumePrefix(&rest, kScheme);
  const size_t slash = rest.find('/');
  settings->bucket = std::string(rest.substr(0, slash));
  const auto wrong = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": ", why));
  };
  if (!absl::StartsWith(address, kScheme) || !IsBucket(settings->bucket)) {
    return wrong("not s3://BUCKET/PREFIX, with a bucket of 3 to 63 of a-z 0-9 . -");
  }
  if (slash == absl::string_view::npos) return absl::OkStatus();
  const absl::string_view prefix = absl::StripSuffix(rest.substr(slash + 1), "/");
  if (prefix.empty()) return absl::OkStatus();
  if (prefix.size() > kPrefixBytesMax) return wrong("a prefix of more than 500 bytes");
  if (std::any_of(prefix.begin(), prefix.end(), [](char c) { return absl::ascii_iscntrl(c); })) {
    return absl::InvalidArgumentError("s3://: a prefix with control characters");
  }
  for (const absl::string_view part : absl::StrSplit(prefix, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return wrong("a prefix with a part that is empty, . or ..");
    }
  }
  settings->prefix = absl::StrCat(prefix, "/");
  return absl::OkStatus();
}

// Reads an endpoint set under `name`. It may contain a password, so errors do not show it.
absl::Status ReadEndpoint(const std::string& name, const std::string& value, Settings* settings) {
  const absl::string_view url = absl::StripSuffix(value, "/");
  absl::string_view host = url;
  const bool has_scheme =
      absl::ConsumePrefix(&host, "https://") || absl::ConsumePrefix(&host, "http://");
  const bool is_host = !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains(".-:[]_", absl::string_view(&c, 1));
  });
  if (!has_scheme || !is_host) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not http[s]://HOST[:PORT]"));
  }
  settings->endpoint = std::string(url);
  return absl::OkStatus();
}

absl::Status FindEndpoint(const Environment& environment, const Profile& profile,
                          Settings* settings) {
  for (const std::string name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    const std::string value = Variable(environment, name);
    if (!value.empty()) return ReadEndpoint(name, value, settings);
  }
  const std::string value = profile.Field("endpoint_url");
  if (value.empty()) return absl::OkStatus();
  return ReadEndpoint(absl::StrCat("endpoint_url of profile ", profile.name), value, settings);
}

absl::Status FindRegion(const Environment& environment, const Profile& profile,
                        Settings* settings) {
  for (const std::string& value :
       {Variable(environment, "AWS_REGION"), Variable(environment, "AWS_DEFAULT_REGION"),
        profile.Field("region"), std::string(settings->endpoint.empty() ? "" : "us-east-1")}) {
    if (settings->region.empty()) settings->region = value;
  }
  if (settings->region.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(settings->Address(), ": no region: set AWS_REGION, or `region` of profile ",
                     profile.name, " in ", profile.config_file));
  }
  const bool is_region = std::all_of(settings->region.begin(), settings->region.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
  if (!is_region) {
    return absl::InvalidArgumentError(absl::StrCat("\"", settings->region, "\" is no region"));
  }
  return absl::OkStatus();
}

// Amazon's endpoints have the bucket in the host name, except for buckets with dots, which no
// certificate covers.
void TakeAmazonsEndpoint(Settings* settings) {
  const bool is_china = absl::StartsWith(settings->region, "cn-");
  settings->endpoint =
      absl::StrCat("https://s3.", settings->region, ".amazonaws.com", is_china ? ".cn" : "");
  settings->bucket_in_host = !absl::StrContains(settings->bucket, ".");
}

absl::Status FindCredentials(const Environment& environment, const Profile& profile,
                             Settings* settings) {
  const auto one_missing = [](const std::string& set, const std::string& missing) {
    return absl::FailedPreconditionError(absl::StrCat(set, " is set, ", missing, " is not"));
  };
  Credentials& found = settings->credentials;
  found = {.key_id = Variable(environment, "AWS_ACCESS_KEY_ID"),
           .secret = Variable(environment, "AWS_SECRET_ACCESS_KEY"),
           .token = Variable(environment, "AWS_SESSION_TOKEN"),
           .source = "AWS_ACCESS_KEY_ID"};
  if (!found.key_id.empty() && !found.secret.empty()) return absl::OkStatus();
  if (!found.key_id.empty()) return one_missing("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
  if (!found.secret.empty()) return one_missing("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID");
  found = {.key_id = profile.Field("aws_access_key_id"),
           .secret = profile.Field("aws_secret_access_key"),
           .token = profile.Field("aws_session_token"),
           .source = absl::StrCat("profile ", profile.name, " of ", profile.credentials_file)};
  if (!found.key_id.empty() && !found.secret.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      settings->Address(), ": no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not ",
      "set, and aws_access_key_id and aws_secret_access_key not in ", found.source));
}

}  // namespace

std::string Settings::Address() const {
  return std::string(absl::StripSuffix(absl::StrCat(kScheme, bucket, "/", prefix), "/"));
}

std::string Settings::BucketUrl() const {
  if (!bucket_in_host) return absl::StrCat(endpoint, "/", bucket);
  const size_t host = endpoint.find("://") + 3;
  return absl::StrCat(endpoint.substr(0, host), bucket, ".", endpoint.substr(host));
}

absl::StatusOr<Settings> FindSettings(const std::string& address, const Environment& environment) {
  Settings settings;
  if (absl::Status status = ReadAddress(address, &settings); !status.ok()) return status;
  absl::StatusOr<Profile> profile = ReadProfile(environment);
  if (!profile.ok()) return profile.status();
  for (const auto find : {FindEndpoint, FindRegion, FindCredentials}) {
    if (absl::Status status = find(environment, *profile, &settings); !status.ok()) return status;
  }
  if (settings.endpoint.empty()) TakeAmazonsEndpoint(&settings);
  settings.ca_bundle = Variable(environment, "AWS_CA_BUNDLE");
  // They become part of request lines.
  for (const std::string* part :
       {&settings.credentials.key_id, &settings.credentials.secret, &settings.credentials.token}) {
    if (std::any_of(part->begin(), part->end(), [](char c) { return !absl::ascii_isgraph(c); })) {
      return absl::InvalidArgumentError(absl::StrCat("credentials of ", settings.credentials.source,
                                                     ": a space or a character ",
                                                     "that is none of ASCII's"));
    }
  }
  return settings;
}

namespace {

constexpr size_t kFileBytesMax = 1 << 20;

// Returns a file's sections; none: it does not exist.
absl::StatusOr<Sections> ReadSections(const std::string& path) {
  if (path.empty()) return Sections();
  absl::StatusOr<std::string> text = ReadFile(path, kFileBytesMax);
  if (absl::IsNotFound(text.status())) return Sections();
  if (!text.ok()) return text.status();
  return ParseSections(*text, path);
}

// Returns the file named by a variable, or the one in the home folder; empty: there is none.
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
  // The settings file has [profile NAME], but [default].
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
