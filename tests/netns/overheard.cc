#include "tests/netns/overheard.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/image/safetensors.h"
#include "gtest/gtest.h"

namespace strata::tests {
namespace {

constexpr size_t kRun = 8;  // values
constexpr size_t kKeyFileBytesMax = 16 << 10;

uint64_t FirstTwo(const void* values) {
  uint64_t two;
  std::memcpy(&two, values, sizeof two);
  return two;
}

// Runs, found by their first two values.
std::unordered_multimap<uint64_t, const float*> RunsOf(const SavedModel& model) {
  std::unordered_multimap<uint64_t, const float*> runs;
  for (const SavedTensor& tensor : model.tensors) {
    for (size_t i = 0; i + kRun <= tensor.values.size(); ++i) {
      const float* const run = &tensor.values[i];
      if (!std::all_of(run, run + kRun, [run](float v) { return v == *run; })) {
        runs.emplace(FirstTwo(run), run);
      }
    }
  }
  return runs;
}

// The lines of a private key, and the key itself: after the head of its DER, 32 bytes.
void AddPrivateKey(const std::string& pem, std::vector<std::string>* secrets) {
  const std::string end = "-----END PRIVATE KEY-----";
  const size_t begin = pem.find("-----BEGIN PRIVATE KEY-----\n");
  if (begin == std::string::npos || pem.find(end) == std::string::npos) return;
  const std::string body = pem.substr(begin + 28, pem.find(end) - begin - 28);
  std::string all, der;
  for (const auto line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    // The first part of the first line is the same in all keys.
    secrets->push_back(std::string(line.substr(all.empty() ? 48 : 0)));
    absl::StrAppend(&all, line);
  }
  ASSERT_TRUE(absl::Base64Unescape(all, &der));
  constexpr char kHead[] = "\x02\x01\x01\x04\x20";
  const size_t key = der.find(kHead);
  ASSERT_NE(key, std::string::npos) << "no key on P-256";
  secrets->push_back(der.substr(key + 5, 32));
}

}  // namespace

size_t WeightRunsIn(const std::vector<std::string>& streams, const std::string& model_path) {
  const absl::StatusOr<SavedModel> model = ReadSafetensors(model_path);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return 0;
  const auto runs = RunsOf(*model);
  EXPECT_GT(runs.size(), 1000u);
  size_t found = 0;
  for (const std::string& stream : streams) {
    for (size_t at = 0; at + kRun * sizeof(float) <= stream.size(); ++at) {
      const auto [first, last] = runs.equal_range(FirstTwo(&stream[at]));
      found += std::any_of(first, last, [&](const auto& run) {
        return std::memcmp(run.second, &stream[at], kRun * sizeof(float)) == 0;
      });
    }
  }
  return found;
}

std::vector<std::string> KeysAndTokensBelow(const std::string& folder) {
  std::vector<std::string> secrets;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.file_size() > kKeyFileBytesMax) continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (entry.path().extension() == ".pem") AddPrivateKey(text, &secrets);
    if (entry.path().extension() != ".token") continue;
    // strata1.AUTHORITY.SECRET
    const std::vector<std::string> parts = absl::StrSplit(text, '.');
    std::string secret;
    EXPECT_EQ(parts.size(), 3u) << entry.path();
    if (parts.size() != 3) continue;
    secrets.push_back(parts[2].substr(0, 22));
    EXPECT_TRUE(absl::WebSafeBase64Unescape(secrets.back(), &secret)) << entry.path();
    secrets.push_back(secret);
  }
  return secrets;
}

bool IsInAny(const std::vector<std::string>& streams, const std::string& text) {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const std::string& stream) { return absl::StrContains(stream, text); });
}

std::vector<std::string> HeardOf(const std::vector<std::string>& secrets,
                                 const std::vector<std::string>& streams) {
  std::vector<std::string> heard;
  for (const std::string& secret : secrets) {
    if (IsInAny(streams, secret)) heard.push_back(absl::CHexEscape(secret));
  }
  return heard;
}

}  // namespace strata::tests
