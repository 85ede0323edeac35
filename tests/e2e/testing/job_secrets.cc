#include "tests/e2e/testing/job_secrets.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata::tests {

proto::Launch LaunchOf(int pid) {
  // A file in memory, at descriptor 4.
  std::ifstream in(absl::StrCat("/proc/", pid, "/fd/4"));
  std::stringstream text;
  text << in.rdbuf();
  proto::Launch launch;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text.str(), &launch)) << text.str();
  return launch;
}

std::vector<std::string> Spellings(const std::string& bytes) {
  return {bytes, absl::BytesToHexString(bytes), absl::Base64Escape(bytes), absl::CHexEscape(bytes),
          absl::CEscape(bytes)};
}

bool IsIn(const std::string& text, const std::vector<std::string>& spellings) {
  return std::any_of(spellings.begin(), spellings.end(), [&](const std::string& spelling) {
    return absl::StrContains(text, spelling);
  });
}

namespace {

constexpr size_t kTooShort = 16;

}  // namespace

std::vector<std::string> PemLines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.size() >= kTooShort && !absl::StartsWith(line, "-----")) lines.push_back(line);
  }
  EXPECT_GE(lines.size(), 5u) << path << ": a key and a certificate";
  return lines;
}

}  // namespace strata::tests
