// Third-party tools against a coordinator's port: testssl.sh looks for weak TLS, slowhttptest opens
// connections and sends little on them. Each test first shows that the tool finds a real weakness.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/os/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {
namespace {

using testing::IsEmpty;
using testing::IsSupersetOf;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class AttackTools : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster_.Start(), absl::OkStatus()); }

  std::string PathOf(const std::string& name) const { return absl::StrCat(TestDir(), "/", name); }

  // The program's output goes to NAME.out.
  std::unique_ptr<Process> StartProgram(const std::vector<std::string>& args,
                                        const std::string& name) {
    Process::Spec spec;
    spec.args = args;
    spec.log_path = PathOf(name + ".out");
    auto process = Process::Start(spec);
    EXPECT_TRUE(process.ok()) << process.status() << ": run deploy/install_packages.sh --tests";
    return process.ok() ? *std::move(process) : nullptr;
  }

  // Returns the address of a program that prints it after `before` once it listens.
  std::string AddressIn(const std::string& name, const std::string& before) {
    std::string text;
    EXPECT_TRUE(WaitUntil([&] {
      text = ReadAll(PathOf(name + ".out"));
      const size_t begin = text.find(before);
      return begin != std::string::npos &&
             text.find_first_of(" \n", begin + before.size()) != std::string::npos;
    })) << text;
    const size_t begin = text.find(before) + before.size();
    return absl::StrCat("127.0.0.1:", text.substr(begin, text.find_first_of(" \n", begin) - begin));
  }

  // Returns the findings of testssl: "id", "severity" and "finding" of each check.
  nlohmann::json Scan(const std::string& address, const std::vector<std::string>& checks) {
    const std::string report = PathOf("report.json");
    std::filesystem::remove(report);  // it does not append
    std::vector<std::string> args = {"testssl", "--warnings", "off",        "--color", "0",
                                     "--ip",    "one",        "--jsonfile", report};
    args.insert(args.end(), checks.begin(), checks.end());
    args.push_back(address);
    const auto scan = StartProgram(args, "testssl");
    if (scan == nullptr) return nlohmann::json::array();
    EXPECT_TRUE(WaitUntil([&] { return scan->TryReap().has_value(); }, absl::Seconds(240)))
        << ReadAll(PathOf("testssl.out"));
    nlohmann::json found = nlohmann::json::parse(ReadAll(report), nullptr, false);
    EXPECT_TRUE(found.is_array()) << ReadAll(PathOf("testssl.out"));
    return found.is_array() ? found : nlohmann::json::array();
  }

  // Lets slowhttptest open connections for some seconds, and calls `during` meanwhile. Returns how
  // many connections the other side had closed in the end, and how many were open.
  struct Connections {
    int closed = 0, open = 0;
  };
  template <typename During>
  Connections Slowly(const std::string& url, const std::vector<std::string>& how, During during) {
    const std::string report = PathOf("slow");
    std::vector<std::string> args = {"slowhttptest", "-u", url, "-g", "-o", report, "-i", "2"};
    args.insert(args.end(), how.begin(), how.end());
    const auto slow = StartProgram(args, "slowhttptest");
    if (slow == nullptr) return {};
    EXPECT_TRUE(WaitUntil([&] {
      during();
      return slow->TryReap().has_value();
    })) << url;
    // "Seconds,Closed,Pending,Connected,Service Available", and a line for each second.
    const std::string text = ReadAll(report + ".csv");
    const std::vector<std::string> lines =
        absl::StrSplit(absl::StripSuffix(text, "\n"), '\n', absl::SkipEmpty());
    const std::vector<std::string> last =
        lines.empty() ? std::vector<std::string>() : absl::StrSplit(lines.back(), ',');
    Connections seen;
    EXPECT_TRUE(last.size() == 5 && absl::SimpleAtoi(last[1], &seen.closed) &&
                absl::SimpleAtoi(last[3], &seen.open))
        << text << ReadAll(PathOf("slowhttptest.out"));
    return seen;
  }

  Cluster cluster_{{.servers = 0, .nodes = 0}};
};

// Returns the checks with these outcomes.
std::set<std::string> ChecksWith(const nlohmann::json& found,
                                 const std::set<std::string>& severities) {
  std::set<std::string> ids;
  for (const auto& finding : found) {
    if (severities.contains(finding.value("severity", ""))) ids.insert(finding.value("id", ""));
  }
  return ids;
}

// Excludes checks that apply only to web servers, such as a certificate that browsers trust.
TEST_F(AttackTools, TestsslFindsNothingToObjectTo) {
  const std::set<std::string> bad = {"MEDIUM", "HIGH", "CRITICAL", "FATAL"};
  const std::string key = cluster_.KeyArgs(keys::Role::kCoordinator, "careless").at(1);
  const auto careless =
      StartProgram({"openssl", "s_server", "-rev", "-accept", "127.0.0.1:0", "-cert", key, "-key",
                    key, "-cipher", "ALL:eNULL:@SECLEVEL=0"},
                   "careless");
  ASSERT_NE(careless, nullptr);
  EXPECT_THAT(ChecksWith(Scan(AddressIn("careless", "ACCEPT 127.0.0.1:"), {"--std"}), bad),
              IsSupersetOf({"cipherlist_NULL", "cipherlist_aNULL"}));

  const nlohmann::json found = Scan(cluster_.address(), {"--protocols", "--std", "--vulnerable"});
  EXPECT_THAT(ChecksWith(found, bad), IsEmpty()) << found.dump(1);
  EXPECT_THAT(ChecksWith(found, {"OK"}),
              IsSupersetOf({"SSLv2", "SSLv3", "TLS1_2", "TLS1_3", "cipherlist_NULL",
                            "cipherlist_aNULL", "cipherlist_STRONG", "heartbleed", "ROBOT",
                            "secure_renego", "CRIME_TLS", "SWEET32", "LUCKY13", "RC4"}))
      << found.dump(1);
}

TEST_F(AttackTools, SlowhttptestKeepsNoConnectionAndNobodyOut) {
  const auto patient = StartProgram(
      {"python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", TestDir()},
      "patient");
  ASSERT_NE(patient, nullptr);
  const std::string url = absl::StrCat("http://", AddressIn("patient", " port "), "/");
  const Connections kept = Slowly(url, {"-H", "-c", "50", "-r", "50", "-l", "4"}, [] {});
  EXPECT_GE(kept.open, 25) << "it can keep connections of one who waits";

  // Slow headers, and a slow body.
  for (const char* attack : {"-H", "-B"}) {
    int answers = 0;
    const Connections seen = Slowly(absl::StrCat("https://", cluster_.address(), "/"),
                                    {attack, "-c", "1000", "-r", "100", "-l", "10"}, [&] {
                                      const CommandResult jobs =
                                          RunStrata(cluster_.Asking({"jobs"}), absl::Seconds(20));
                                      EXPECT_EQ(jobs.status.code, 0) << jobs.err;
                                      EXPECT_EQ(jobs.out, "no jobs\n");
                                      ++answers;
                                    });
    EXPECT_GE(answers, 5) << attack;
    EXPECT_GE(seen.closed, 100) << attack;
    EXPECT_LE(seen.open, 20) << attack;
  }
  EXPECT_FALSE(cluster_.coordinator().process->TryReap().has_value());
}

}  // namespace
}  // namespace strata::tests
