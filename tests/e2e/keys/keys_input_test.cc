// Keys and tokens that do not count: one clear line that says what to do.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/ipc/testing/short_folder.h"
#include "common/keys/authority.h"
#include "common/keys/private_file.h"
#include "common/keys/testing/test_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using keys::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

// A coordinator whose keys `strata keys init` has made.
class KeysInput : public testing::Test {
 protected:
  void SetUp() override {
    state_ = TestDir() + "/state";
    fs::remove_all(state_);
    ASSERT_EQ(RunStrata({"keys", "init", "--state", state_}).status.code, 0);
    auto started =
        StartDaemon("coordinator", {"coordinator", "--listen", "127.0.0.1:0", "--state", state_},
                    {"env", "XDG_RUNTIME_DIR=" + runtime_.path()});
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    address_ = ValueIn(coordinator_.ready_line, "address");
    socket_ = ValueIn(coordinator_.ready_line, "socket");
  }

  std::string PathOf(const std::string& name) const { return absl::StrCat(TestDir(), "/", name); }

  // A file with keys that the cluster's own authority has signed.
  std::string Keys(Role role, const std::string& name, absl::Duration begins, absl::Duration ends) {
    const auto pem = keys::ReadPrivateFile(state_ + "/keys/authority.pem", 1 << 16);
    const auto authority = keys::Authority::FromPem(*pem);
    const absl::Time now = absl::Now();
    const std::string path = PathOf(name + ".pem");
    const keys::Identity identity{authority->cluster(), role, name};
    EXPECT_TRUE(
        keys::WriteKeyFile(path, keys::MakeKeyFile(*authority, identity, now + begins, now + ends))
            .ok());
    return path;
  }

  // What a command says on standard error, which is one line.
  std::string Refused(std::vector<std::string> args) {
    args.insert(args.end(), {"--coordinator", address_, "--timeout", "10"});
    const CommandResult result = RunStrata(args);
    EXPECT_NE(result.status.code, 0) << result.out;
    EXPECT_EQ(result.status.signal, 0);
    EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]+\n"));
    return result.err;
  }

  const ShortFolder runtime_;
  std::string state_, address_, socket_;
  Daemon coordinator_;
};

constexpr absl::Duration kHour = absl::Hours(1), kMinute = absl::Minutes(1);

TEST_F(KeysInput, KeysThatDoNotCountAreRefusedWithWhatToDo) {
  const std::string good = Keys(Role::kUser, "ada", -kHour, kHour);
  EXPECT_EQ(RunStrata({"jobs", "--coordinator", address_, "--keys", good}).status.code, 0);

  EXPECT_THAT(Refused({"jobs", "--keys", PathOf("nowhere.pem")}), HasSubstr("nowhere.pem"));
  EXPECT_THAT(Refused({"jobs", "--keys", Keys(Role::kUser, "old", -kHour, -kMinute)}),
              AllOf(HasSubstr("expired at"), HasSubstr("strata keys token")));
  EXPECT_THAT(Refused({"jobs", "--keys", Keys(Role::kUser, "early", kHour, 2 * kHour)}),
              HasSubstr("set the clocks"));
  EXPECT_THAT(Refused({"jobs", "--keys", Keys(Role::kWorker, "w1", -kHour, kHour)}),
              HasSubstr("worker w1 may not look at jobs"));
  const std::string shown = Keys(Role::kUser, "shown", -kHour, kHour);
  ASSERT_EQ(chmod(shown.c_str(), 0644), 0);
  EXPECT_THAT(Refused({"jobs", "--keys", shown}), HasSubstr("chmod 600 " + shown));
  std::ofstream(PathOf("damaged.pem")) << "-----BEGIN PRIVATE KEY-----\n";
  ASSERT_EQ(chmod(PathOf("damaged.pem").c_str(), 0600), 0);
  EXPECT_THAT(Refused({"jobs", "--keys", PathOf("damaged.pem")}), HasSubstr("damaged.pem"));

  keys::KeyFolder other(PathOf("other"));
  EXPECT_THAT(Refused({"jobs", "--keys", other.PathOf(Role::kUser, "eve")}),
              HasSubstr("cannot be trusted"));
  EXPECT_THAT(
      Refused({"worker", "--keys", Keys(Role::kServer, "s1", -kHour, kHour), "--log-level", "off"}),
      HasSubstr("is of server s1, not of a worker"));
  EXPECT_THAT(Refused({"worker", "--keys", Keys(Role::kWorker, "w2", -kHour, kHour), "--name", "w3",
                       "--log-level", "off"}),
              HasSubstr("is of worker w2, not of a worker w3"));
}

TEST_F(KeysInput, TokensThatDoNotCountAreRefusedWithWhatToDo) {
  const auto refused = [&](const std::string& token) {
    const std::string path = PathOf("token");
    EXPECT_TRUE(keys::WritePrivateFile(path, token).ok());
    return Refused({"keys", "join", "--join-file", path, "--keys", PathOf("new.pem")});
  };
  // As the operator makes them.
  const auto made = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"keys", "token", "worker", "--coordinator", socket_};
    args.insert(args.end(), more.begin(), more.end());
    const CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.code, 0) << result.err;
    return result.out;
  };
  const auto join = [&](const std::string& token, const std::string& name) {
    const std::string path = PathOf("token");
    EXPECT_TRUE(keys::WritePrivateFile(path, token).ok());
    return std::vector<std::string>{
        "keys",   "join",   "--join-file", path,     "--role",
        "worker", "--name", name,          "--keys", PathOf(name + ".pem")};
  };
  const std::string once = made({});
  std::vector<std::string> first = join(once, "w1");
  first.insert(first.end(), {"--coordinator", address_});
  EXPECT_EQ(RunStrata(first).status.code, 0);
  EXPECT_THAT(Refused(join(once, "w2")), HasSubstr("used already"));
  EXPECT_THAT(Refused(join(made({}), "w1")), HasSubstr("worker w1 has a certificate already"));
  EXPECT_THAT(Refused(join(made({"--name", "w5"}), "w6")), HasSubstr("for worker w5, not for"));
  const std::string late = made({"--ttl", "1s"});
  absl::SleepFor(absl::Milliseconds(1100));
  EXPECT_THAT(Refused(join(late, "w3")), HasSubstr("good until"));
  ASSERT_EQ(RunStrata({"keys", "revoke", "w1", "--coordinator", socket_}).status.code, 0);
  EXPECT_THAT(Refused({"worker", "--keys", PathOf("w1.pem"), "--log-level", "off"}),
              HasSubstr("the certificate of worker w1 was revoked"));

  EXPECT_THAT(Refused({"keys", "join", "--join-file", PathOf("none"), "--keys", PathOf("x.pem")}),
              HasSubstr("none"));
  EXPECT_THAT(refused("hello"), HasSubstr("token"));
  EXPECT_THAT(refused(absl::StrCat("strata1.", std::string(43, 'A'), ".", std::string(22, 'A'))),
              HasSubstr("not of the cluster that the token is of"));
  EXPECT_FALSE(fs::exists(PathOf("new.pem")));
}

TEST_F(KeysInput, APortWithoutKeysIsNotListenedOn) {
  const CommandResult result =
      RunStrata({"coordinator", "--listen", "0.0.0.0:0", "--state", PathOf("bare")});
  EXPECT_EQ(result.status.code, 1);
  EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]+\n"));
  EXPECT_THAT(result.err, HasSubstr("strata keys init --state " + PathOf("bare")));
  const CommandResult again = RunStrata({"keys", "init", "--state", state_});
  EXPECT_EQ(again.status.code, 1);
  EXPECT_THAT(again.err, HasSubstr("has keys already"));
}

}  // namespace
}  // namespace strata::tests
