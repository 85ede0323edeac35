// Checks which ports the daemons listen on, and with which of their keys.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/interfaces.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/hostile/keys_case.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using keys::Role;
using testing::AllOf;
using testing::HasSubstr;

constexpr absl::Duration kMinute = absl::Minutes(1);

// Returns the error of a daemon that does not start.
std::string NotStarted(std::vector<std::string> args) {
  args.insert(args.end(), {"--log-level", "off"});
  return LineOf(RunStrata(args, absl::Seconds(60)));
}

class KeysPorts : public KeysCase {
 protected:
  // Returns the error of a coordinator with these keys, which leaves no folder behind.
  std::string RefusedWith(const std::string& keys) const {
    const std::string state = PathOf("new");
    const std::string said =
        NotStarted({"coordinator", "--listen", "127.0.0.1:0", "--state", state, "--keys", keys});
    EXPECT_FALSE(fs::exists(state)) << "it has left a folder behind";
    return said;
  }
};

TEST_F(KeysPorts, ACoordinatorShowsNoKeysButACoordinatorsThatCountNow) {
  EXPECT_THAT(RefusedWith(Keys(Role::kWorker, "w1")),
              AllOf(HasSubstr("w1.pem: is of worker w1, not of a coordinator"),
                    HasSubstr("strata keys import")));
  EXPECT_THAT(RefusedWith(Keys(Role::kUser, "ada")), HasSubstr("is of user ada"));
  EXPECT_THAT(RefusedWith(Keys(Role::kCoordinator, "late", -kHour, -kMinute)),
              AllOf(HasSubstr("late.pem: the certificate of coordinator late expired at"),
                    HasSubstr("strata keys import")));
  EXPECT_THAT(RefusedWith(Keys(Role::kCoordinator, "early", kHour, 2 * kHour)),
              HasSubstr("set the clocks"));
  const auto started =
      StartCoordinator(PathOf("new"), {"--keys", Keys(Role::kCoordinator, "head")});
  EXPECT_TRUE(started.ok()) << started.status();
}

TEST_F(KeysPorts, ACoordinatorWhoseOwnCertificateHasExpiredSaysWhatRenewsIt) {
  state_ = PathOf("aged");
  ASSERT_EQ(RunStrata({"keys", "init", "--state", state_}).status.code, 0);
  fs::copy_file(Keys(Role::kCoordinator, "coordinator", -kHour, -kMinute),
                state_ + "/keys/coordinator.pem", fs::copy_options::overwrite_existing);
  EXPECT_THAT(
      NotStarted({"coordinator", "--listen", "127.0.0.1:0", "--state", state_}),
      AllOf(HasSubstr("keys/coordinator.pem: the certificate of coordinator coordinator expired"),
            HasSubstr(absl::StrCat("`strata keys rotate-ca --state ", state_,
                                   "` and then the same with --finish --force"))));
  const std::vector<std::string> rotate = {"keys", "rotate-ca", "--state", state_};
  ASSERT_EQ(RunStrata(rotate).status.code, 0);
  std::vector<std::string> finish = rotate;
  finish.insert(finish.end(), {"--finish", "--force"});
  ASSERT_EQ(RunStrata(finish).status.code, 0);
  const auto started = StartCoordinator(state_, {});
  EXPECT_TRUE(started.ok()) << started.status();
}

TEST_F(KeysPorts, DaemonsOfAClusterWithoutKeysListenToThisHostAlone) {
  const std::string plain = "unix:" + runtime_.path() + "/plain";
  const auto coordinator =
      StartDaemon("plain", {"coordinator", "--listen", plain, "--state", PathOf("plain")});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const std::vector<std::string> server = {"server", "--coordinator", plain,    "--name",
                                           "s1",     "--listen",      "0.0.0.0"};
  EXPECT_THAT(NotStarted(server),
              AllOf(HasSubstr("--listen 0.0.0.0: others may reach that, and this cluster has no "
                              "keys: leave --listen out"),
                    HasSubstr("strata keys init"), HasSubstr("--insecure")));
  const auto interfaces = net::ListInterfaces();
  ASSERT_TRUE(interfaces.ok()) << interfaces.status();
  for (const net::Interface& interface : *interfaces) {
    const std::string address = absl::StrCat(interface.address.ToString(), "/32");
    if (interface.address.is_loopback()) continue;
    EXPECT_THAT(NotStarted({"worker", "--coordinator", plain, "--interface", address, "--runs",
                            PathOf("runs")}),
                HasSubstr(absl::StrCat("--interface ", address, ": others may reach that")));
  }
  std::vector<std::string> open = server;
  open.push_back("--insecure");
  const auto said = StartDaemon("open", open);
  EXPECT_TRUE(said.ok()) << said.status();
  // If the cluster has keys, jobs encrypt their traffic, however a daemon has joined.
  std::vector<std::string> sealed = server;
  sealed[2] = socket_;
  const auto started = StartDaemon("sealed", sealed);
  EXPECT_TRUE(started.ok()) << started.status();
}

}  // namespace
}  // namespace strata::tests
