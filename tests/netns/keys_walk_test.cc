// A cluster of three hosts as docs/security.md makes it by hand, word for word; and what goes
// over the network meanwhile.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/ipc/testing/short_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/job_secrets.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/netns/netns_cluster.h"
#include "tests/netns/overheard.h"
#include "tests/netns/packet_capture.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The lines "    HOST$ COMMAND" of the page, in order, each with those below it: what the command
// reads, or says.
struct PageCommand {
  std::string host, command, below;
};
std::vector<PageCommand> CommandsOf(const std::string& page) {
  std::vector<PageCommand> commands;
  std::ifstream in(page);
  bool is_below = false;
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "    ")) {
      is_below = false;
      continue;
    }
    const size_t dollar = line.find("$ ");
    const std::string host = dollar == std::string::npos ? "" : line.substr(4, dollar - 4);
    if (host == "head" || host == "node1" || host == "node2") {
      commands.push_back({host, line.substr(dollar + 2), ""});
      is_below = true;
    } else if (is_below) {
      absl::StrAppend(&commands.back().below, line.substr(4), "\n");
    }
  }
  return commands;
}

size_t BytesOf(const std::vector<std::string>& streams) {
  size_t bytes = 0;
  for (const std::string& stream : streams) bytes += stream.size();
  return bytes;
}

// A job, and what was said on the network from its submission to its end.
struct Heard {
  std::vector<std::string> streams;
  std::string model_path;
  std::vector<std::string> secrets;  // its own
  std::string token;                 // as HELLO has it
};

class KeysWalk : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto network = Network::Create();
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
    int number = 1;
    for (const char* host : {"head", "node1", "node2"}) {
      ASSERT_EQ(network_->AddHost(host, number++), absl::OkStatus());
      fs::create_directories(HomeOf(host));
      fs::create_directories(RuntimeOf(host));
    }
    // Long enough for another user to try what they may not.
    proto::Job job = LenetJob("job", 2, 2, 100);
    job.mutable_debug()->add_delays()->set_delay_ms(100);
    WriteJob(HomeOf("node2"), job);
    auto capture = PacketCapture::Start();
    ASSERT_TRUE(capture.ok()) << capture.status();
    capture_ = *std::move(capture);
  }

  std::string HomeOf(const std::string& host) const { return absl::StrCat(TestDir(), "/", host); }

  std::string RuntimeOf(const std::string& host) const {
    return absl::StrCat(short_folder_.path(), "/", host);
  }

  // In that host's network, with a home of its own and the names of the page.
  std::vector<std::string> On(const std::string& host) const {
    std::vector<std::string> words = network_->On(host);
    words.insert(words.end(), {"env", "-C", HomeOf(host), "HOME=" + HomeOf(host),
                               "XDG_RUNTIME_DIR=" + RuntimeOf(host)});
    return words;
  }
  std::string Here(const std::string& command) const {
    return absl::StrReplaceAll(command,
                               {{"head:7070", absl::StrCat(Network::AddressOf(1), ":7070")},
                                {"/var/lib/strata", HomeOf("head") + "/state"}});
  }
  std::vector<std::string> WordsOf(const std::string& command) const {
    std::vector<std::string> words = absl::StrSplit(Here(command), ' ');
    words.erase(words.begin());  // "strata"
    return words;
  }
  CommandResult Run(const std::string& host, const std::string& command) {
    return RunStrata(WordsOf(command), kDeadline, On(host));
  }
  // A command of the system's, by a shell.
  CommandResult RunShell(const std::string& host, const std::string& script) {
    std::vector<std::string> shell = On(host);
    shell.insert(shell.end(), {"sh", "-c", Here(script)});
    return RunStrata({}, kDeadline, shell);
  }

  void StartOn(const std::string& host, const std::string& title, const std::string& command) {
    auto daemon = StartDaemon(title, WordsOf(command), On(host));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemons_[title] = *std::move(daemon);
  }

  // Everything that the page says.
  void Walk() {
    const auto commands = CommandsOf("docs/security.md");
    ASSERT_EQ(commands.size(), 15u);
    for (const auto& [host, command, below] : commands) {
      SCOPED_TRACE(absl::StrCat(host, "$ ", command));
      if (host != "head") {
        // "Take hosts.token to both hosts, and each user's token to where they work."
        for (const char* token : {"/hosts.token", "/ada.token", "/ben.token"}) {
          fs::copy_file(HomeOf("head") + token, HomeOf(host) + token,
                        fs::copy_options::skip_existing);
        }
      }
      if (absl::StartsWith(command, "cat ")) {
        const CommandResult written = RunShell(host, absl::StrCat(command, "\n", below));
        ASSERT_EQ(written.status.code, 0) << written.err;
        continue;
      }
      const std::string verb = WordsOf(command)[0];
      if (verb == "coordinator" || verb == "server" || verb == "worker") {
        ASSERT_NO_FATAL_FAILURE(StartOn(host, verb, command));
        continue;
      }
      const CommandResult result = Run(host, command);
      if (absl::StartsWith(below, "strata: error: ")) {
        EXPECT_EQ(result.err, below);
        EXPECT_NE(result.status.code, 0);
        EXPECT_THAT(Run("node2", "strata jobs --coordinator head:7070").out, HasSubstr("running"));
        continue;
      }
      ASSERT_EQ(result.status.code, 0) << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr(below));
      if (verb == "status") {
        EXPECT_THAT(result.out, HasSubstr("job 1 (job): finished"));
      }
    }
  }

  // Runs a job of two nodes, which the two workers have; it takes 20 steps of 20 ms.
  void Overhear(proto::Job::Exchange exchange, bool is_signed, Heard* heard) {
    proto::Job job = LenetJob(
        absl::StrCat(is_signed ? "signed-" : "", proto::Job::Exchange_Name(exchange)), 4, 2, 20);
    job.set_exchange(exchange);
    if (is_signed) job.set_protection(proto::Job::SIGN);
    job.mutable_debug()->add_delays()->set_delay_ms(20);
    WriteJob(HomeOf("node2"), job);
    EXPECT_TRUE(WaitUntil([] { return ListProcesses("aggregator").empty(); }));
    capture_->Take();
    Command command = StartStrata(WordsOf(absl::StrCat("strata submit ", job.name(), ".textproto ",
                                                       "--coordinator head:7070 --follow")),
                                  On("node2"));
    std::vector<int> aggregators;
    EXPECT_TRUE(WaitUntil([&] {
      aggregators = ListProcesses("aggregator");
      return aggregators.size() == 2 || command.process->TryReap().has_value();
    }));
    ASSERT_EQ(aggregators.size(), 2u);
    const proto::JobRecord record = LaunchOf(aggregators[0]).record();
    const CommandResult result = Finish(std::move(command));
    ASSERT_EQ(result.status.code, 0) << result.out << result.err;
    const std::vector<std::string> packets = capture_->Take();
    EXPECT_LE(capture_->lost(), packets.size() / 100);
    heard->streams = StreamsOf(packets);
    const uint64_t token = record.token();
    heard->token.assign(reinterpret_cast<const char*>(&token), sizeof token);
    heard->secrets = Spellings(record.secret());
    ASSERT_EQ(heard->secrets[0].size(), 32u);
    const std::vector<std::string> words = absl::StrSplit(result.out, "\nmodel: ");
    ASSERT_EQ(words.size(), 2u) << result.out;
    heard->model_path = words[1].substr(0, words[1].find('\n'));
  }

  // Of all that was said while the daemons joined and the page's job ran.
  void ExpectNothingWasTold() {
    const std::vector<std::string> streams = StreamsOf(capture_->Take());
    EXPECT_GT(BytesOf(streams), 100'000u);
    EXPECT_TRUE(IsInAny(streams, "\2h2")) << "the beginning of each TLS connection";
    EXPECT_FALSE(IsInAny(streams, "spiffe://"));
    const std::vector<std::string> secrets = KeysAndTokensBelow(TestDir());
    EXPECT_GT(secrets.size(), 5u * 4) << "the authority, four members, tokens";
    EXPECT_THAT(HeardOf(secrets, streams), IsEmpty());
    EXPECT_THAT(HeardOf(secrets, {ReadAll(HomeOf("node2") + "/ada.token")}), Not(IsEmpty()));
    EXPECT_EQ(WeightRunsIn(streams, HomeOf("node2") + "/strata-runs/job-1/model.safetensors"), 0u);
  }

  // With a second worker: what jobs of both exchanges tell, sealed as they are by default and only
  // signed.
  void ExpectOnlySignedJobsTellTheirWeights() {
    ASSERT_EQ(Run("head", "strata keys token worker --out second.token").status.code, 0);
    fs::copy_file(HomeOf("head") + "/second.token", HomeOf("node1") + "/second.token");
    ASSERT_NO_FATAL_FAILURE(StartOn("node1", "second worker",
                                    "strata worker --coordinator head:7070 --slots 2 --name second "
                                    "--join-file second.token"));
    for (const auto exchange : {proto::Job::PARAMETER_SERVER, proto::Job::RING}) {
      SCOPED_TRACE(proto::Job::Exchange_Name(exchange));
      Heard sealed, readable;
      ASSERT_NO_FATAL_FAILURE(Overhear(exchange, /*is_signed=*/false, &sealed));
      EXPECT_GT(BytesOf(sealed.streams), 10 * fs::file_size(sealed.model_path));
      EXPECT_EQ(WeightRunsIn(sealed.streams, sealed.model_path), 0u);
      EXPECT_THAT(HeardOf(sealed.secrets, sealed.streams), IsEmpty());
      EXPECT_FALSE(IsInAny(sealed.streams, sealed.token));
      EXPECT_FALSE(IsInAny(sealed.streams, "spiffe://"));
      // Who only signs tells the rest, so it would have been found above.
      ASSERT_NO_FATAL_FAILURE(Overhear(exchange, /*is_signed=*/true, &readable));
      EXPECT_GT(WeightRunsIn(readable.streams, readable.model_path), 10'000u);
      EXPECT_TRUE(IsInAny(readable.streams, readable.token));
      EXPECT_THAT(HeardOf(readable.secrets, readable.streams), IsEmpty());
    }
  }

  // Neither a token nor a key is in a log, a command line or an environment.
  void ExpectSecretsAreNotShown() {
    std::string shown;
    for (const auto& [role, daemon] : daemons_) {
      absl::StrAppend(&shown, ReadAll(daemon.log_path));
      for (const char* file : {"cmdline", "environ"}) {
        absl::StrAppend(&shown, ReadAll(absl::StrCat("/proc/", daemon.process->pid(), "/", file)));
      }
    }
    EXPECT_THAT(shown, HasSubstr("--join-file"));
    for (const char* token : {"/hosts.token", "/ada.token", "/ben.token"}) {
      const std::vector<std::string> parts = absl::StrSplit(ReadAll(HomeOf("head") + token), '.');
      ASSERT_EQ(parts.size(), 3u);
      EXPECT_THAT(shown, Not(HasSubstr(parts[2].substr(0, 22))));
    }
    EXPECT_THAT(shown, Not(HasSubstr("PRIVATE KEY")));
  }

  const ShortFolder short_folder_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<PacketCapture> capture_;
  std::map<std::string, Daemon> daemons_;
};

TEST_F(KeysWalk, ThePageMakesAClusterThatTrainsAndKeepsOthersOut) {
  ASSERT_NO_FATAL_FAILURE(Walk());
  ExpectNothingWasTold();
  const std::string name = ValueIn(daemons_["worker"].ready_line, "name");
  struct stat facts = {};
  const std::string kept = absl::StrCat(HomeOf("node2"), "/.config/strata/worker-", name, ".pem");
  ASSERT_EQ(stat(kept.c_str(), &facts), 0) << kept;
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_THAT(Run("node2", "strata status --coordinator head:7070").out,
              HasSubstr("security: mutual TLS, cluster "));
  EXPECT_THAT(Run("head", "strata keys list").out, AllOf(HasSubstr("ada"), HasSubstr("ben")));

  ASSERT_NO_FATAL_FAILURE(ExpectOnlySignedJobsTellTheirWeights());
  ExpectSecretsAreNotShown();

  // A third host with the same token, a user who has not joined, and a daemon whose keys were taken
  // back.
  EXPECT_THAT(Run("head", "strata worker --coordinator head:7070 --join-file hosts.token").err,
              HasSubstr("the token is not known: it was used already"));
  EXPECT_THAT(Run("head", "strata status --coordinator head:7070").err,
              HasSubstr("there are no keys for it"));
  EXPECT_THAT(Run("node1", "strata status --coordinator head:7070 --insecure --timeout 1").err,
              HasSubstr("cannot be reached"));
  EXPECT_EQ(Run("head", "strata keys revoke " + name + " --role worker").status.code, 0);
  EXPECT_TRUE(WaitUntil([&] { return daemons_["worker"].process->TryReap().has_value(); }));
}

}  // namespace
}  // namespace strata::tests
