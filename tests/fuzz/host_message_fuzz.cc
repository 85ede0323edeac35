// Lines between `strata launch` and `strata host`, some of which carry a daemon's keys: what is no
// message is none, what is one comes back as it was, in one line, and what is said of keys that
// cannot be read shows nothing of them.
//
// Input: a byte that says what follows: 'l' a line, 'k' a daemon's keys.
#include <openssl/err.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/cluster/host_message.h"
#include "common/keys/key_file.h"
#include "tests/fuzz/check.h"

namespace strata::cli {
namespace {

// Shorter words may be in an error by chance.
constexpr size_t kSecretBytesMin = 24;

// Keys are lines of Base64. Words with spaces between them are in an error because it says so.
bool IsSecret(absl::string_view line) {
  return line.size() >= kSecretBytesMin && std::all_of(line.begin(), line.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '+' || c == '/' || c == '=';
         });
}

void CheckIsOneLine(absl::string_view text) {
  FUZZ_CHECK(!text.empty());
  for (const char c : text) FUZZ_CHECK(c >= ' ' && c <= '~');
}

HostMessage SaidAgain(const HostMessage& message) {
  const std::string line = EncodeHostMessage(message);
  CheckIsOneLine(line);
  const std::optional<HostMessage> again = DecodeHostMessage(line);
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(again->kind == message.kind && again->signal == message.signal);
  return *again;
}

void Line(const std::string& line) {
  const std::optional<HostMessage> message = DecodeHostMessage(line);
  if (!message.has_value()) return;
  const HostMessage again = SaidAgain(*message);
  FUZZ_CHECK(again.title == message->title && again.text == message->text);
  FUZZ_CHECK(again.args == message->args && again.keys == message->keys);
}

void Keys(const std::string& text) {
  HostMessage start;
  start.kind = HostMessage::Kind::kStart;
  start.title = "worker w1";
  start.args = {"worker", "--name", "w1"};
  start.keys = text;
  // What is not UTF-8 comes as something else.
  const std::string keys = SaidAgain(start).keys;
  FUZZ_CHECK(keys.empty() == text.empty());
  const absl::StatusOr<keys::KeyFile> read = keys::ParseKeyFile(keys, "--keys-fd");
  if (read.ok()) return;
  const absl::string_view error = read.status().message();
  CheckIsOneLine(error);
  FUZZ_CHECK(absl::StartsWith(error, "--keys-fd: "));
  for (const absl::string_view line : absl::StrSplit(keys, '\n')) {
    FUZZ_CHECK(!IsSecret(line) || !absl::StrContains(error, line));
  }
}

void Fuzz(char kind, const std::string& rest) {
  if (kind == 'l') Line(rest);
  if (kind == 'k') Keys(rest);
  // Nothing is left for others to take for their own error.
  FUZZ_CHECK(ERR_peek_error() == 0);
}

}  // namespace
}  // namespace strata::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::cli::Fuzz(static_cast<char>(data[0]),
                    std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
