// Key commands that change who is trusted: for-run, import, rotate-ca, revoke --tokens.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/keys/private_file.h"
#include "common/testing/short_folder.h"
#include "common/testing/test_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using keys::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;

class KeysCommands : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(PathOf("state")); }

  std::string PathOf(const std::string& name) const { return absl::StrCat(TestDir(), "/", name); }

  void StartCoordinator(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"coordinator", "--listen", "127.0.0.1:0", "--state",
                                     PathOf("state")};
    args.insert(args.end(), more.begin(), more.end());
    auto started = StartDaemon("coordinator", args, {"env", "XDG_RUNTIME_DIR=" + runtime_.path()});
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    address_ = ValueIn(coordinator_.ready_line, "address");
    socket_ = ValueIn(coordinator_.ready_line, "socket");
  }
  void StopCoordinator() {
    coordinator_.process->Signal(SIGTERM);
    EXPECT_EQ(coordinator_.process->Reap().ToString(), "exited with status 0");
  }

  // Runs a command that succeeds; returns its output.
  std::string Said(const std::vector<std::string>& args) {
    const CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.ToString(), "exited with status 0") << result.err;
    return result.out;
  }
  // Runs a command that fails; returns the line with the reason.
  std::string Refused(const std::vector<std::string>& args) {
    const CommandResult result = RunStrata(args);
    EXPECT_NE(result.status.code, 0) << result.out;
    EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]+\n"));
    return result.err;
  }

  // Makes a token for a user, and the keys that join with it.
  std::string TokenOf(const std::string& user) {
    const std::string path = PathOf(user + ".token");
    Said({"keys", "user", user, "--coordinator", socket_, "--out", path});
    return path;
  }
  std::vector<std::string> Joining(const std::string& token, const std::string& keys) const {
    return {"keys", "join", "--coordinator", address_, "--join-file", token, "--keys", keys};
  }
  std::vector<std::string> Listing(const std::string& keys) const {
    return {"jobs", "--coordinator", address_, "--keys", keys, "--timeout", "10"};
  }

  const ShortFolder runtime_;
  std::string address_, socket_;
  Daemon coordinator_;
};

TEST_F(KeysCommands, ImportMakesKeyFilesOfWhatAnAuthorityOfOnesOwnIssues) {
  const absl::Time now = absl::Now();
  const keys::Authority own = keys::MakeAuthority("lab", now);
  const keys::Authority other = keys::MakeAuthority("lab", now);
  std::ofstream(PathOf("ca")) << own.RootsPem();
  std::ofstream(PathOf("other-ca")) << other.RootsPem();
  const auto import = [&](Role role, const std::string& name, const std::string& roots) {
    const keys::KeyFile made =
        keys::MakeKeyFile(own, {"lab", role, name}, now - absl::Minutes(5), now + absl::Hours(1));
    EXPECT_TRUE(keys::WritePrivateFile(PathOf("key"), made.key.ToPem()).ok());
    std::ofstream(PathOf("certificate")) << made.ChainPem();
    return std::vector<std::string>{"keys",        "import",
                                    "--key-file",  PathOf("key"),
                                    "--cert-file", PathOf("certificate"),
                                    "--ca-file",   PathOf(roots),
                                    "--out",       PathOf(name + ".pem")};
  };
  EXPECT_THAT(Refused(import(Role::kUser, "ada", "other-ca")),
              HasSubstr("of another cluster or authority"));
  EXPECT_THAT(Refused(import(Role::kUser, "ada", "nowhere")),
              HasSubstr("nowhere: cannot be read, or is empty"));
  EXPECT_FALSE(fs::exists(PathOf("ada.pem")));
  EXPECT_THAT(Said(import(Role::kUser, "ada", "ca")),
              HasSubstr("ada.pem: the keys of user ada in cluster lab\n"));
  EXPECT_EQ(fs::status(PathOf("ada.pem")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  Said(import(Role::kCoordinator, "head", "ca"));

  ASSERT_NO_FATAL_FAILURE(StartCoordinator({"--keys", PathOf("head.pem")}));
  EXPECT_EQ(Said(Listing(PathOf("ada.pem"))), "no jobs\n");
}

TEST_F(KeysCommands, ForRunMakesKeysOfOneAuthorityOnceInAFolder) {
  const std::string folder = PathOf("run-keys");
  fs::remove_all(folder);
  const auto for_run = [&](const std::vector<std::string>& members) {
    std::vector<std::string> args = {"keys", "for-run", "--out", folder};
    args.insert(args.end(), members.begin(), members.end());
    return args;
  };
  const auto refused = [&](const std::vector<std::string>& members) {
    const CommandResult result = RunStrata(for_run(members));
    EXPECT_EQ(result.status.code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(
      refused({"user/u", "worker/a"}),
      "strata: error: no coordinator among the members: all that a run has are named at once\n");
  EXPECT_EQ(refused({"coordinator/c", "worker/a"}),
            "strata: error: no user among the members: all that a run has are named at once\n");
  EXPECT_EQ(refused({"coordinator/c", "user/u", "worker"}),
            "strata: error: worker: expected ROLE/NAME, as in worker/w1\n");
  EXPECT_FALSE(fs::exists(folder)) << "nothing is written";

  Said(for_run({"coordinator/c", "user/u", "worker/a"}));
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(folder)) names.insert(file.path().filename());
    return names;
  };
  EXPECT_THAT(files(), ElementsAre("coordinator-c.pem", "user-u.pem", "worker-a.pem"));
  EXPECT_EQ(refused({"coordinator/c", "user/u", "worker/b"}),
            "strata: error: " + folder +
                ": has keys already, of another authority; name a new folder, and all members in "
                "one command\n");
  EXPECT_THAT(files(), SizeIs(3)) << "nothing is written";
}

TEST_F(KeysCommands, RevokeTokensClosesThoseThatAreOpen) {
  Said({"keys", "init", "--state", PathOf("state")});
  ASSERT_NO_FATAL_FAILURE(StartCoordinator());
  Said(Joining(TokenOf("ada"), PathOf("ada.pem")));
  const std::string bens = TokenOf("ben"), cids = TokenOf("cid");
  EXPECT_THAT(Refused({"keys", "revoke", "--coordinator", socket_}),
              HasSubstr("whose keys? A name, or --tokens"));
  EXPECT_EQ(Said({"keys", "revoke", "--tokens", "--coordinator", socket_}), "2 tokens closed\n");
  for (const std::string& token : {bens, cids}) {
    EXPECT_THAT(Refused(Joining(token, PathOf("late.pem"))), HasSubstr("was closed or is of"));
  }
  EXPECT_EQ(Said(Listing(PathOf("ada.pem"))), "no jobs\n") << "who has keys keeps them";
  Said(Joining(TokenOf("ben"), PathOf("ben.pem")));
}

TEST_F(KeysCommands, RotateCaTrustsBothAuthoritiesUntilItIsFinished) {
  const std::vector<std::string> rotate = {"keys", "rotate-ca", "--state", PathOf("state")};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = rotate;
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  EXPECT_THAT(Refused(rotate), HasSubstr("has no keys: `strata keys init --state "));
  Said({"keys", "init", "--state", PathOf("state")});
  ASSERT_NO_FATAL_FAILURE(StartCoordinator());
  Said(Joining(TokenOf("ada"), PathOf("ada.pem")));
  StopCoordinator();

  EXPECT_THAT(Refused(with({"--finish"})), HasSubstr("no rotation is under way"));
  EXPECT_THAT(Said(rotate), HasSubstr("new authority: SHA-256 "));
  EXPECT_THAT(Refused(rotate), HasSubstr("a rotation is under way: end it with --finish"));
  ASSERT_NO_FATAL_FAILURE(StartCoordinator());
  EXPECT_EQ(Said(Listing(PathOf("ada.pem"))), "no jobs\n") << "of the old one";
  Said(Joining(TokenOf("ben"), PathOf("ben.pem")));
  StopCoordinator();

  EXPECT_THAT(Refused(with({"--finish"})),
              HasSubstr("without a certificate of the new authority yet: user ada; "));
  EXPECT_THAT(Said(with({"--finish", "--force"})), HasSubstr("the old authority is gone"));
  ASSERT_NO_FATAL_FAILURE(StartCoordinator());
  EXPECT_THAT(Refused(Listing(PathOf("ada.pem"))), HasSubstr("of another cluster or authority"));
  EXPECT_EQ(Said(Listing(PathOf("ben.pem"))), "no jobs\n") << "of the new one";
}

}  // namespace
}  // namespace strata::tests
