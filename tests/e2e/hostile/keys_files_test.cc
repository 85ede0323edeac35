// Files with keys and tokens that are missing, damaged or owned by another user: one line that says
// what to do, compared as a whole. And a cluster whose certificates come from its owner's
// authority.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/keys/private_file.h"
#include "common/testing/other_user.h"
#include "common/testing/short_folder.h"
#include "common/testing/test_keys.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/hostile/keys_case.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using keys::Role;

using KeysFiles = KeysCase;

TEST_F(KeysFiles, AMissingKeyFileSaysWhatMakesIt) {
  const std::string path = PathOf("nowhere.pem");
  EXPECT_EQ(Refused({"jobs", "--keys", path}),
            at_ + path + ": is not there: `strata keys join` with a token makes it");
  EXPECT_EQ(
      RefusedDaemon({"worker", "--keys", path}),
      path + ": is not there: --join-file with a token of `strata keys token worker` makes it");
}

TEST_F(KeysFiles, AMissingTokenIsNotTakenForMissingKeys) {
  const std::string path = PathOf("nope.token");
  const auto makes = [&](const std::string& command) {
    return absl::StrCat(path, ": is not there: `strata keys ", command,
                        " --out FILE` on the coordinator's host makes one");
  };
  EXPECT_EQ(RefusedDaemon({"worker", "--join-file", path}), makes("token worker"));
  EXPECT_EQ(RefusedDaemon({"server", "--join-file", path}), makes("token server"));
  EXPECT_EQ(Join(path, {"--keys", PathOf("x.pem")}), makes("user NAME"));
  EXPECT_EQ(Join(path, {"--name", "ada", "--keys", PathOf("x.pem")}), makes("user ada"));
}

TEST_F(KeysFiles, ADamagedKeyFileIsToBeReplaced) {
  const std::string path = File("damaged.pem", "-----BEGIN PRIVATE KEY-----\n");
  const std::string line =
      path +
      ": PEM block 1 is damaged or cut off; take the file from a copy, or remove it and join anew "
      "with a token";
  EXPECT_EQ(Refused({"jobs", "--keys", path}), at_ + line);
  EXPECT_EQ(RefusedDaemon({"worker", "--keys", path}), line);
}

TEST_F(KeysFiles, WhatOthersMayReadIsToBeClosed) {
  const std::string keys = Keys(Role::kUser, "ada");
  const std::string token = Token("w.token", {"token", "worker"});
  for (const std::string& path : {keys, token}) ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const std::string why = ": mode 0644 lets others read the secret in it: chmod 600 ";
  EXPECT_EQ(Refused({"jobs", "--keys", keys}), at_ + keys + why + keys);
  EXPECT_EQ(RefusedDaemon({"worker", "--join-file", token}), token + why + token);
}

// Becomes `strata ARGS`, whose binary may be in a folder that this user cannot read. Does not
// return.
[[noreturn]] void BecomeStrata(int binary, const std::vector<std::string>& args,
                               const std::string& err) {
  std::vector<char*> words;
  std::vector<std::string> all = {"strata"};
  all.insert(all.end(), args.begin(), args.end());
  for (std::string& word : all) words.push_back(word.data());
  words.push_back(nullptr);
  char* const environment[] = {nullptr};
  const int fd = open(err.c_str(), O_WRONLY | O_TRUNC);
  if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0) fexecve(binary, words.data(), environment);
  _exit(127);
}

// Only root can change its user.
TEST_F(KeysFiles, KeysOfAnotherUserSayWhoseTheyAre) {
  const ShortFolder folder;
  const std::string path = folder.path() + "/ada.pem", err = folder.path() + "/err";
  fs::copy_file(Keys(Role::kUser, "ada"), path);
  std::ofstream(err) << "";
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(chmod(err.c_str(), 0666), 0);
  const UniqueFd binary(open(StrataBinary().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(binary.valid());
  const std::vector<std::string> args = {"jobs", "--keys", path, "--coordinator", address_};
  const bool ran = AsOtherUser([&] {
    const pid_t child = fork();
    if (child == 0) BecomeStrata(binary.get(), args, err);
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
  });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
  std::stringstream said;
  said << std::ifstream(err).rdbuf();
  EXPECT_EQ(said.str(), absl::StrCat("strata: error: ", at_, path, ": belongs to uid ", getuid(),
                                     ", you are uid ", kOtherUser, ": run as that user, or chown ",
                                     kOtherUser, " ", path, "\n"));
}

TEST_F(KeysFiles, AStateFolderThatIsHalfThereKeepsTheCoordinatorFromStarting) {
  coordinator_ = Daemon();
  for (const std::string file : {"authority.pem", "coordinator.pem"}) {
    const std::string path = state_ + "/keys/" + file, kept = PathOf("kept");
    fs::rename(path, kept);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"coordinator", "--listen", "127.0.0.1:0", "--log-level", "off"},
          std::vector<std::string>{"keys", "init"}}) {
      std::vector<std::string> args = command;
      args.insert(args.end(), {"--state", state_});
      EXPECT_EQ(LineOf(RunStrata(args)),
                absl::StrCat(path, ": No such file or directory; take ", state_,
                             "/keys from a copy, or remove it, say `strata keys init --state ",
                             state_, "`, and all members join anew"));
    }
    fs::rename(kept, path);
  }
}

TEST_F(KeysFiles, APortWithoutKeysIsNotListenedOn) {
  const std::string bare = PathOf("bare");
  EXPECT_EQ(LineOf(RunStrata({"coordinator", "--listen", "0.0.0.0:0", "--state", bare})),
            absl::StrCat("--listen 0.0.0.0:0: others may reach that, and there are no keys: "
                         "`strata keys init --state ",
                         bare,
                         "` makes them, unix:/PATH is for this user alone, and --insecure lets "
                         "whoever reaches the port run programs as you"));
  EXPECT_FALSE(fs::exists(bare)) << "it has left a folder behind";
  EXPECT_EQ(LineOf(RunStrata({"keys", "init", "--state", state_})),
            state_ + " has keys already, of cluster blue");
}

// A cluster with its owner's authority: `strata keys token` and `join` are refused.
class OwnAuthority : public KeysCase {
 protected:
  void SetUp() override {
    fs::remove_all(TestDir());
    state_ = PathOf("state");
    File("state/policy.textproto", "users { name: \"root\" role: ADMIN }\n");
    auto started =
        StartCoordinator(state_, {"--keys", company_.PathOf(Role::kCoordinator, "coordinator")});
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    address_ = ValueIn(coordinator_.ready_line, "address");
    at_ = absl::StrCat("coordinator at ", address_, ": ");
  }
  // As a user with the right to manage keys.
  std::vector<std::string> Admin(std::vector<std::string> args) {
    args.insert(args.begin(), "keys");
    args.insert(args.end(), {"--keys", company_.PathOf(Role::kUser, "root")});
    return args;
  }
  std::string Done(std::vector<std::string> args) {
    args = Admin(args);
    args.insert(args.end(), {"--coordinator", address_});
    const CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.code, 0) << result.err;
    return result.out;
  }

  keys::KeyFolder company_{PathOf("company")};
};

TEST_F(OwnAuthority, NobodyIsSentToACommandThatIsRefused) {
  EXPECT_EQ(Refused(Admin({"token", "worker"})),
            "this coordinator issues no certificates: the authority that issued its own does, and "
            "`strata keys import` makes key files of them");
  ASSERT_TRUE(
      keys::WriteKeyFile(PathOf("old.pem"),
                         keys::MakeKeyFile(company_.authority(), {"test", Role::kUser, "old"},
                                           now_ - kHour, now_ - absl::Minutes(1)))
          .ok());
  EXPECT_EQ(Refused({"jobs", "--keys", PathOf("old.pem")}),
            at_ +
                "it does not take this certificate: the certificate of user old expired at TIME: "
                "your own authority issues a new one, and `strata keys import` makes a key file "
                "of it");
  const std::string w1 = company_.PathOf(Role::kWorker, "w1");
  Done({"revoke", "w1", "--role", "worker"});
  EXPECT_EQ(RefusedDaemon({"worker", "--keys", w1}),
            at_ +
                "the certificate of worker w1 was revoked: one that your own authority issues "
                "after that counts, and `strata keys import` makes a key file of it");
}

TEST_F(OwnAuthority, ListSaysThatTheAuthorityIsOnesOwn) {
  EXPECT_EQ(Done({"list"}),
            "cluster test\nauthority: one of your own, which issues and renews certificates "
            "itself\nnobody's keys are revoked\n");
}

}  // namespace
}  // namespace strata::tests
