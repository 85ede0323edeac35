// `strata launch` through a real sshd on loopback, with the test's own keys and configuration.
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSshd[] = "/usr/sbin/sshd";
// Debian's sshd needs this empty folder when root runs it; services create it at their start.
constexpr char kPrivilegeSeparation[] = "/run/sshd";

// $0: folder, $1: port. Programs built with sanitizers keep their options.
constexpr char kServerConfiguration[] = R"(
ListenAddress 127.0.0.1
Port $1
HostKey $0/host_key
AuthorizedKeysFile $0/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
AcceptEnv *SAN_OPTIONS
)";
constexpr char kClientConfiguration[] = R"(
Host n1
  HostKeyAlias n1
Host n2
  HostKeyAlias n2
Host stranger
  HostKeyAlias stranger
Host *
  HostName 127.0.0.1
  Port $1
  IdentityFile $0/user_key
  IdentitiesOnly yes
  UserKnownHostsFile $0/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  SendEnv *SAN_OPTIONS
)";

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class LaunchOverSshd : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(kSshd))
        << "is not installed: run deploy/install_packages.sh --tests (openssh-server)";
    std::error_code error;
    made_folder_ = std::filesystem::create_directory(kPrivilegeSeparation, error);
    for (const char* name : {"host_key", "user_key"}) MakeKey(name);
    const std::string host_key = ReadAll(dir_ + "/host_key.pub");
    std::ofstream(dir_ + "/known_hosts") << "n1 " << host_key << "n2 " << host_key;
    // Below the ephemeral ports of the system.
    const int port = 10'000 + getpid() % 20'000;
    std::ofstream(dir_ + "/sshd_config") << absl::Substitute(kServerConfiguration, dir_, port);
    std::ofstream(dir_ + "/ssh_config") << absl::Substitute(kClientConfiguration, dir_, port);
    sshd_ = Start({kSshd, "-D", "-e", "-f", dir_ + "/sshd_config"}, "sshd");
    ASSERT_TRUE(WaitUntil([this] {
      return ReadAll(dir_ + "/sshd.out").find("Server listening") != std::string::npos;
    })) << ReadAll(dir_ + "/sshd.out");
    Hosts("n1\nn2\n");
  }

  void TearDown() override {
    EXPECT_TRUE(WaitUntil([] { return Processes("strata").empty(); }, absl::Seconds(30)));
    EXPECT_THAT(Processes("strata"), IsEmpty());
    sshd_.reset();
    std::error_code ignored;
    if (made_folder_) std::filesystem::remove(kPrivilegeSeparation, ignored);
  }

  // Processes as in tests/e2e/testing/leftovers.h whose command line contains `part`; sshd also
  // writes to the folder.
  static std::vector<std::string> Processes(const std::string& part) {
    std::vector<std::string> found;
    for (const std::string& line : tests::Processes()) {
      if (line.find(part) != std::string::npos && line.find("sshd") == std::string::npos) {
        found.push_back(line);
      }
    }
    return found;
  }

  std::unique_ptr<Process> Start(const std::vector<std::string>& args, const std::string& name) {
    Process::Spec spec;
    spec.args = args;
    spec.log_path = absl::StrCat(dir_, "/", name, ".out");
    auto process = Process::Start(spec);
    EXPECT_TRUE(process.ok()) << process.status();
    return process.ok() ? std::move(*process) : nullptr;
  }

  void MakeKey(const std::string& name) {
    const std::string path = absl::StrCat(dir_, "/", name);
    for (const char* ending : {"", ".pub"}) std::filesystem::remove(path + ending);
    auto made = Start({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path}, "keygen");
    ASSERT_NE(made, nullptr);
    ASSERT_TRUE(made->Reap().ok()) << ReadAll(dir_ + "/keygen.out");
  }

  void Hosts(const std::string& names) {
    std::ofstream out(dir_ + "/hosts");
    for (char c : names) {
      c == '\n' ? out << " slots=2 address=127.0.0.1\n" : out << c;
    }
  }

  std::vector<std::string> Args(const proto::Job& job) const {
    return {"launch",
            "--hosts",
            dir_ + "/hosts",
            "--job",
            WriteJob(dir_, job),
            "--runs",
            runs_,
            "--ssh",
            absl::StrCat("ssh -o BatchMode=yes -F ", dir_, "/ssh_config")};
  }

  const std::string dir_ = TestDir();
  const std::string runs_ = dir_ + "/runs";
  std::unique_ptr<Process> sshd_;
  bool made_folder_ = false;
};

TEST_F(LaunchOverSshd, RunsAJobOnAllHostsAndLeavesNothingThere) {
  const CommandResult result = RunStrata(Args(LenetJob("job", 4, 2, 20)));
  EXPECT_EQ(result.status.ToString(), "exited with status 0") << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part : {"2 hosts answer, each with strata ", "4 ranks on n1, n2\n", "step 20/20",
                           "finished after "}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(Processes("strata"), IsEmpty()) << "when it ends, its daemons have ended";
}

TEST_F(LaunchOverSshd, NothingIsLeftOnTheHostsAfterItWasKilled) {
  proto::Job job = LenetJob("long", 4, 2, 10'000'000);
  job.mutable_debug()->clear_hash_weights();
  Command launch = StartStrata(Args(job));
  const std::string metrics = runs_ + "/long-1/metrics.jsonl";
  ASSERT_TRUE(WaitUntil(
      [&] { return std::filesystem::exists(metrics) || launch.process->TryReap().has_value(); }));
  ASSERT_EQ(ListProcesses("rank").size(), 4u);
  const std::vector<std::string> traces = Traces();
  launch.process->Signal(SIGKILL);
  Finish(std::move(launch));
  EXPECT_TRUE(WaitUntil([] { return Processes("strata").empty(); }, absl::Seconds(30)));
  EXPECT_THAT(RemainingAtLast(traces), IsEmpty());
}

TEST_F(LaunchOverSshd, WhatSshSaysOfAHostThatItDoesNotTrustIsTheReason) {
  Hosts("n1\nstranger\n");
  const CommandResult result = RunStrata(Args(LenetJob("job", 2, 1, 20)));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_EQ(result.err,
            "strata: error: host stranger: cannot be reached: Host key verification failed.\n");
}

}  // namespace
}  // namespace strata::tests
