#include "tests/e2e/hostile/keys_case.h"

#include <filesystem>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/keys/authority.h"
#include "common/keys/private_file.h"
#include "common/testing/test_keys.h"

namespace strata::tests {

std::string WithoutTimes(const std::string& text) {
  static const std::regex time("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|\\+00:00)");
  return std::regex_replace(text, time, "TIME");
}

std::string LineOf(const CommandResult& result) {
  constexpr absl::string_view kPrefix = "strata: error: ";
  EXPECT_NE(result.status.code, 0) << result.out;
  EXPECT_EQ(result.status.signal, 0);
  const bool is_one_line =
      absl::StartsWith(result.err, kPrefix) && result.err.find('\n') == result.err.size() - 1;
  EXPECT_TRUE(is_one_line) << result.err;
  return is_one_line ? result.err.substr(kPrefix.size(), result.err.size() - kPrefix.size() - 1)
                     : "";
}

void KeysCase::SetUp() {
  state_ = PathOf("state");
  std::filesystem::remove_all(TestDir());  // commands append to their logs
  ASSERT_EQ(RunStrata({"keys", "init", "--state", state_, "--cluster", "blue"}).status.code, 0);
  auto started = StartCoordinator(state_, {});
  ASSERT_TRUE(started.ok()) << started.status();
  coordinator_ = *std::move(started);
  address_ = ValueIn(coordinator_.ready_line, "address");
  socket_ = ValueIn(coordinator_.ready_line, "socket");
  at_ = absl::StrCat("coordinator at ", address_, ": ");
}

absl::StatusOr<Daemon> KeysCase::StartCoordinator(const std::string& state,
                                                  std::vector<std::string> args) {
  args.insert(args.begin(), {"coordinator", "--listen", "127.0.0.1:0", "--state", state});
  return StartDaemon("coordinator", args, {"env", "XDG_RUNTIME_DIR=" + runtime_.path()});
}

std::string KeysCase::Keys(keys::Role role, const std::string& name, absl::Duration begins,
                           absl::Duration ends) {
  const auto pem = keys::ReadPrivateFile(state_ + "/keys/authority.pem", 1 << 16);
  EXPECT_TRUE(pem.ok()) << pem.status();
  const auto authority = keys::Authority::FromPem(*pem);
  const std::string path = PathOf(name + ".pem");
  const keys::Identity identity{authority->cluster(), role, name};
  EXPECT_TRUE(
      keys::WriteKeyFile(path, keys::MakeKeyFile(*authority, identity, now_ + begins, now_ + ends))
          .ok());
  return path;
}

std::string KeysCase::File(const std::string& name, const std::string& content) const {
  EXPECT_TRUE(keys::WritePrivateFile(PathOf(name), content).ok());
  return PathOf(name);
}

std::string KeysCase::Operator(std::vector<std::string> args) const {
  args.insert(args.begin(), "keys");
  args.insert(args.end(), {"--coordinator", socket_});
  const CommandResult result = RunStrata(args);
  EXPECT_EQ(result.status.code, 0) << result.err;
  return result.out;
}

std::string KeysCase::Token(const std::string& name, const std::vector<std::string>& args) const {
  return File(name, Operator(args));
}

std::string KeysCase::Refused(const std::vector<std::string>& args,
                              const std::string& timeout) const {
  std::vector<std::string> all = args;
  all.insert(all.end(), {"--coordinator", address_, "--timeout", timeout});
  // Without keys except those that the test names.
  return WithoutTimes(LineOf(RunStrata(
      all, kDeadline, {"env", "-u", "STRATA_KEYS", "XDG_CONFIG_HOME=" + PathOf("config")})));
}

std::string KeysCase::Join(const std::string& token, const std::vector<std::string>& args) const {
  std::vector<std::string> all = {"keys", "join", "--join-file", token};
  all.insert(all.end(), args.begin(), args.end());
  return Refused(all);
}

std::string KeysCase::RefusedDaemon(std::vector<std::string> args,
                                    const std::string& timeout) const {
  args.insert(args.end(), {"--log-level", "off"});
  return Refused(args, timeout);
}

}  // namespace strata::tests
