// A cluster of three hosts as docs/deployment.md makes it by hand, word for word; and what goes
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
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The lines "    HOST$ COMMAND" of the page, in order.
std::vector<std::pair<std::string, std::string>> CommandsOf(const std::string& page) {
  std::vector<std::pair<std::string, std::string>> commands;
  std::ifstream in(page);
  for (std::string line; std::getline(in, line);) {
    const size_t dollar = line.find("$ ");
    if (!absl::StartsWith(line, "    ") || dollar == std::string::npos) continue;
    const std::string host = line.substr(4, dollar - 4);
    if (host == "head" || host == "node1" || host == "node2") {
      commands.emplace_back(host, line.substr(dollar + 2));
    }
  }
  return commands;
}

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
    WriteJob(HomeOf("node2"), LenetJob("job", 2, 2, 10));
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
  std::vector<std::string> WordsOf(const std::string& command) const {
    const std::string here =
        absl::StrReplaceAll(command, {{"head:7070", absl::StrCat(Network::AddressOf(1), ":7070")},
                                      {"/var/lib/strata", HomeOf("head") + "/state"}});
    std::vector<std::string> words = absl::StrSplit(here, ' ');
    words.erase(words.begin());  // "strata"
    return words;
  }
  CommandResult Run(const std::string& host, const std::string& command) {
    return RunStrata(WordsOf(command), kDeadline, On(host));
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
    for (const char* token : {"/hosts.token", "/ada.token"}) {
      const std::vector<std::string> parts = absl::StrSplit(ReadAll(HomeOf("head") + token), '.');
      ASSERT_EQ(parts.size(), 3u);
      EXPECT_THAT(shown, Not(HasSubstr(parts[2].substr(0, 22))));
    }
    EXPECT_THAT(shown, Not(HasSubstr("PRIVATE KEY")));
  }

  const ShortFolder short_folder_;
  std::unique_ptr<Network> network_;
  std::map<std::string, Daemon> daemons_;
};

TEST_F(KeysWalk, ThePageMakesAClusterThatTrainsAndKeepsOthersOut) {
  const auto commands = CommandsOf("docs/deployment.md");
  ASSERT_EQ(commands.size(), 8u);
  for (const auto& [host, command] : commands) {
    SCOPED_TRACE(absl::StrCat(host, "$ ", command));
    if (host != "head") {
      // "Take hosts.token to both hosts and ada.token to where you work."
      for (const char* token : {"/hosts.token", "/ada.token"}) {
        fs::copy_file(HomeOf("head") + token, HomeOf(host) + token,
                      fs::copy_options::skip_existing);
      }
    }
    const std::string verb = WordsOf(command)[0];
    if (verb == "coordinator" || verb == "server" || verb == "worker") {
      auto daemon = StartDaemon(verb, WordsOf(command), On(host));
      ASSERT_TRUE(daemon.ok()) << daemon.status();
      daemons_[verb] = *std::move(daemon);
      continue;
    }
    const CommandResult result = Run(host, command);
    ASSERT_EQ(result.status.code, 0) << result.out << result.err;
    if (verb == "submit") {
      EXPECT_THAT(result.out, HasSubstr("job 1 (job): finished"));
    }
  }
  const std::string name = ValueIn(daemons_["worker"].ready_line, "name");
  struct stat facts = {};
  const std::string kept = absl::StrCat(HomeOf("node2"), "/.config/strata/worker-", name, ".pem");
  ASSERT_EQ(stat(kept.c_str(), &facts), 0) << kept;
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_THAT(Run("node2", "strata status --coordinator head:7070").out,
              HasSubstr("security: mutual TLS, cluster "));
  EXPECT_THAT(Run("head", "strata keys list").out, HasSubstr("ada"));

  ExpectSecretsAreNotShown();

  // A third host with the same token, a user of another host, and a daemon whose keys were taken
  // back.
  EXPECT_THAT(Run("head", "strata worker --coordinator head:7070 --join-file hosts.token").err,
              HasSubstr("the token is not known: it was used already"));
  EXPECT_THAT(Run("node1", "strata status --coordinator head:7070").err,
              HasSubstr("there are no keys for it"));
  EXPECT_THAT(Run("node1", "strata status --coordinator head:7070 --insecure --timeout 1").err,
              HasSubstr("cannot be reached"));
  EXPECT_EQ(Run("head", "strata keys revoke " + name + " --role worker").status.code, 0);
  EXPECT_TRUE(WaitUntil([&] { return daemons_["worker"].process->TryReap().has_value(); }));
}

}  // namespace
}  // namespace strata::tests
