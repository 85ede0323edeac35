// Strangers at the shards' ports of a job with sealed frames: they know everything that a node
// sends except the secret, or have another job's secret.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/seal/handshake.h"
#include "tests/e2e/testing/hostile_job.h"
#include "tests/e2e/testing/job_secrets.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/e2e/testing/raw_peer.h"

namespace strata::tests {
namespace {

using wire::Op;

class HostileSealedJob : public HostileJob {
 protected:
  using HostileJob::HostileJob;

  // Returns the first message of a handshake with this secret.
  std::string Opening(const std::string& identity, const seal::Secret& secret) {
    auto handshake = seal::Handshake::Connect(identity, secret, seal::NewSalt());
    EXPECT_TRUE(handshake.ok()) << handshake.status();
    std::string first;
    EXPECT_TRUE((*handshake)->Take({}, &first).ok());
    wire::Header header;
    header.op = Op::kHandshake;
    header.job = job_.value();
    return ZmtpFrame(header, first);
  }
};

TEST_F(HostileSealedJob, FramesWithoutASealAndHandshakesWithoutTheSecret) {
  Begin(400, 40);
  const proto::JobRecord& record = launches()[0].record();
  const absl::StatusOr<seal::Secret> secret = seal::SecretFromBytes(record.secret());
  ASSERT_TRUE(secret.ok()) << "the job is not sealed: " << secret.status();
  std::vector<RawPeer> peers;
  const auto say = [&](int port, const std::string& bytes) {
    peers.push_back(RawPeer::Joined(port));
    ASSERT_TRUE(peers.back().connected());
    peers.back().Send(bytes);
  };
  for (const int port : ShardPorts()) {
    // The HELLO is entirely correct.
    for (int i = 0; i < 10; ++i) {
      say(port, Hello(MakeHeader(Op::kHello), record.token()));
      peers.back().Send(ZmtpFrame(MakeHeader(Op::kRetire), ""));
    }
    const std::string identity = seal::IdentityOf(job_.value(), record.attempt());
    const std::string address = absl::StrCat("tcp://127.0.0.1:", port);
    const std::string other = absl::StrCat("tcp://127.0.0.1:", port + 1);
    const seal::Secret connection = seal::ConnectionSecret(*secret, record.attempt(), address);
    say(port, Opening(identity, seal::NewSecret()));
    say(port, Opening(identity, *secret));  // not the connection's secret derived from it
    say(port, Opening(identity, seal::ConnectionSecret(*secret, record.attempt() + 1, address)));
    say(port, Opening(identity, seal::ConnectionSecret(*secret, record.attempt(), other)));
    say(port, Opening(seal::IdentityOf(finished_job_, 0), connection));
    say(port, Opening("job 4000000 attempt 0", connection));
    // Without TLS.
    wire::Header header;
    header.op = Op::kHandshake;
    header.job = job_.value();
    say(port, ZmtpFrame(header, Noise(port, 300)));
    // A peer that knows the secret, but then stays silent: it replaces nobody.
    say(port, Opening(identity, connection));
  }
  ExpectRefused("s0", "frame without a seal", 2 * 2 * 10);
  ExpectRefused("s0", "wrong secret of a job", 2 * 6);
  ExpectUndisturbed();
}

std::string ContentOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The job's secret, and the contents of the cluster's key files.
class Secrets : public HostileSealedJob {
 protected:
  Secrets()
      : HostileSealedJob({.servers = 1,
                          .shards = 2,
                          .nodes = 2,
                          .slots = 2,
                          .coordinator_args = {"--policy", WritePolicy()}}) {}

  // Writes a policy whose operator may see everything.
  static std::string WritePolicy() {
    const std::string path = TestDir() + "/policy.textproto";
    std::ofstream(path) << "users { name: \"tester\" role: ADMIN }\n";
    return path;
  }

  void Learn() {
    const std::string secret = launches()[0].record().secret();
    ASSERT_EQ(secret.size(), 32u);
    spellings_ = Spellings(secret);
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(TestDir() + "/keys")) {
      for (std::string& line : PemLines(entry.path())) spellings_.push_back(std::move(line));
      ++files;
    }
    EXPECT_EQ(files, 1 + 1 + 2 + 1) << "of the coordinator, a server, workers and a user";
  }

  // The command's output.
  void ExpectIsSilent(const std::vector<std::string>& words) {
    const CommandResult said = RunStrata(cluster_.Asking(words));
    EXPECT_EQ(said.status.ToString(), "exited with status 0") << said.err;
    EXPECT_FALSE(IsIn(said.out + said.err, spellings_)) << words[0];
  }

  std::vector<std::string> spellings_;
};

TEST_F(Secrets, AreOnNoCommandLineAndInNoEnvironmentNoLogAndNoAnswer) {
  traced_steps_ = 5;
  Begin(300, 20);
  ASSERT_NO_FATAL_FAILURE(Learn());
  const std::vector<int> ranks = ListProcesses("rank");
  ASSERT_EQ(ranks.size(), 4u);
  for (const int pid : ranks) {
    const std::string launch = ContentOf(absl::StrCat("/proc/", pid, "/fd/4"));
    EXPECT_TRUE(absl::StrContains(launch, "record")) << launch;
    EXPECT_FALSE(IsIn(launch, spellings_)) << "ranks do not need it";
  }
  int looked_at = 0;
  for (const std::string& process : Processes()) {
    const std::string pid = process.substr(0, process.find(':'));
    for (const char* file : {"cmdline", "environ"}) {
      EXPECT_FALSE(IsIn(ContentOf(absl::StrCat("/proc/", pid, "/", file)), spellings_)) << process;
    }
    ++looked_at;
  }
  EXPECT_GE(looked_at, 4 + 2 + 3) << "ranks, aggregators, daemons";
  const std::string job = absl::StrCat(job_.value());
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"status", job, "--json"},
                                             {"status", job},
                                             {"jobs", "--json"},
                                             {"nodes", "--json"},
                                             {"keys", "list", "--json"}}) {
    ExpectIsSilent(words);
  }
  ExpectTheSameWeights();
  const std::string trace = TestDir() + "/trace.json";
  ExpectIsSilent({"trace", job, trace});
  EXPECT_TRUE(absl::StrContains(ContentOf(trace), "backward"));
  cluster_.StopAll();
  // Its state contained the secret while the job ran.
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TestDir())) {
    if (!entry.is_regular_file() || entry.path().extension() == ".pem") continue;
    ++files;
    EXPECT_FALSE(IsIn(ContentOf(entry.path()), spellings_)) << entry.path();
  }
  EXPECT_GT(files, 10u);
}

}  // namespace
}  // namespace strata::tests
