#include "tests/netns/network.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/require.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {
namespace {

constexpr absl::Duration kCommandDeadline = absl::Seconds(30);
constexpr char kSwitch[] = "switch0";
constexpr int kOwnNumber = 254;
constexpr char kNobody[] = "02:00:00:00:00:99";  // a card that no host has

std::string LogPath() { return absl::StrCat(testing::TempDir(), "/network.log"); }

absl::Status Run(std::vector<std::string> args) {
  const std::string line = absl::StrJoin(args, " ");
  const std::string log = LogPath();
  const size_t written = std::filesystem::exists(log) ? std::filesystem::file_size(log) : 0;
  Process::Spec spec;
  spec.executable = args[0];
  spec.args = std::move(args);
  spec.log_path = log;
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  if (!WaitUntil([&] { return (*process)->TryReap().has_value(); }, kCommandDeadline)) {
    return absl::DeadlineExceededError(absl::StrCat(line, ": not done after 30 s"));
  }
  if ((*process)->Reap().ok()) return absl::OkStatus();
  std::ifstream in(log);
  in.seekg(static_cast<std::streamoff>(written));
  std::stringstream said;
  said << in.rdbuf();
  return absl::InternalError(absl::StrCat(line, ": ", said.str()));
}

absl::Status RunAll(const std::vector<std::vector<std::string>>& commands) {
  for (const auto& command : commands) {
    if (absl::Status status = Run(command); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool Write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  return !out.fail();
}

// Returns the network namespace of a process.
ino_t NetworkOf(const std::string& pid) {
  struct stat info = {};
  return stat(absl::StrCat("/proc/", pid, "/ns/net").c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string Cable(const std::string& host) { return absl::StrCat("to-", host); }

absl::Status Enter() {
  if (unshare(CLONE_NEWNET) == 0) return Run({"ip", "link", "set", "lo", "up"});
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && Write("/proc/self/setgroups", "deny") &&
      Write("/proc/self/uid_map", absl::StrCat("0 ", user, " 1")) &&
      Write("/proc/self/gid_map", absl::StrCat("0 ", group, " 1"))) {
    return Run({"ip", "link", "set", "lo", "up"});
  }
  return absl::PermissionDeniedError(
      "cannot make a network namespace: this takes root, or a kernel that lets users make "
      "namespaces");
}

absl::Status* Entered() {
  static absl::Status* const status =
      std::make_unique<absl::Status>(absl::FailedPreconditionError("EnterOwnNetwork not called"))
          .release();
  return status;
}

}  // namespace

void EnterOwnNetwork() { *Entered() = Enter(); }

const absl::Status& OwnNetwork() { return *Entered(); }

absl::StatusOr<std::unique_ptr<Network>> Network::Create() {
  STRATA_REQUIRE(OwnNetwork().ok());
  std::unique_ptr<Network> network(new Network());
  const absl::Status status = RunAll({
      {"ip", "link", "add", kSwitch, "type", "bridge"},
      {"ip", "address", "add", absl::StrCat(AddressOf(kOwnNumber), "/24"), "dev", kSwitch},
      {"ip", "link", "set", kSwitch, "up"},
  });
  if (!status.ok()) return status;
  return network;
}

Network::~Network() {
  // A cable goes with either of its ends.
  for (const auto& [name, host] : hosts_) {
    Run({"ip", "link", "delete", Cable(name)}).IgnoreError();
  }
  Run({"ip", "link", "delete", kSwitch}).IgnoreError();
}

std::string Network::AddressOf(int number) { return absl::StrCat("10.77.0.", number); }

absl::Status Network::AddHost(const std::string& name, int number) {
  Process::Spec spec;
  spec.executable = "unshare";
  spec.args = {"unshare", "--net", "sleep", "infinity"};
  spec.log_path = LogPath();
  auto keeper = Process::Start(spec);
  if (!keeper.ok()) return keeper.status();
  const std::string pid = absl::StrCat((*keeper)->pid());
  const ino_t own = NetworkOf("self");
  if (!WaitUntil([&] { return NetworkOf(pid) != 0 && NetworkOf(pid) != own; }, kCommandDeadline)) {
    return absl::InternalError(absl::StrCat("host ", name, ": unshare made no namespace"));
  }
  hosts_[name] = {number, *std::move(keeper)};
  const std::string cable = Cable(name);
  std::vector<std::vector<std::string>> commands = {
      {"ip", "link", "set", "lo", "up"},
      // A pair of which both ends stay there: an interface with nobody behind it.
      {"ip", "link", "add", "mgmt0", "type", "veth", "peer", "name", "nobody"},
      {"ip", "address", "add", absl::StrCat("172.30.", number, ".1/24"), "dev", "mgmt0"},
      {"ip", "link", "set", "nobody", "up"},
      {"ip", "link", "set", "mgmt0", "up"},
      {"ip", "link", "add", "eth0", "type", "veth", "peer", "name", cable, "netns",
       absl::StrCat(getpid())},
      {"ip", "address", "add", absl::StrCat(AddressOf(number), "/24"), "dev", "eth0"},
      {"ip", "link", "set", "eth0", "up"},
  };
  const std::vector<std::string> on_host = On(name);
  for (auto& command : commands) {
    command.insert(command.begin(), on_host.begin(), on_host.end());
  }
  commands.push_back({"ip", "link", "set", cable, "master", kSwitch, "up"});
  return RunAll(commands);
}

std::vector<std::string> Network::On(const std::string& host) const {
  return {"nsenter", absl::StrCat("--net=/proc/", hosts_.at(host).keeper->pid(), "/ns/net"), "--"};
}

absl::Status Network::Ip(const std::string& host, const std::vector<std::string>& args) {
  std::vector<std::string> command = On(host);
  command.push_back("ip");
  command.insert(command.end(), args.begin(), args.end());
  return Run(std::move(command));
}

Network::Traffic Network::TrafficOf(const std::string& host) const {
  std::ifstream in(absl::StrCat("/proc/", hosts_.at(host).keeper->pid(), "/net/dev"));
  std::string line;
  while (std::getline(in, line)) {
    // "  eth0: BYTES and 7 more received, BYTES and 7 more sent"
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 10 || words[0] != "eth0:") continue;
    Traffic traffic;
    if (absl::SimpleAtoi(words[1], &traffic.received_bytes) &&
        absl::SimpleAtoi(words[9], &traffic.sent_bytes)) {
      return traffic;
    }
  }
  return {};
}

absl::Status Network::SetLink(const std::string& host, bool up) {
  return Run({"ip", "link", "set", Cable(host), up ? "up" : "down"});
}

absl::Status Network::Part(const std::string& host, const std::string& other) {
  const auto mislead = [&](const std::string& from, const std::string& to) {
    return Ip(from, {"neighbour", "replace", AddressOf(hosts_.at(to).number), "lladdr", kNobody,
                     "dev", "eth0", "nud", "permanent"});
  };
  const absl::Status one_way = mislead(host, other);
  return one_way.ok() ? mislead(other, host) : one_way;
}

absl::Status Network::Join(const std::string& host, const std::string& other) {
  const auto correct = [&](const std::string& from, const std::string& to) {
    return Ip(from, {"neighbour", "delete", AddressOf(hosts_.at(to).number), "dev", "eth0"});
  };
  const absl::Status one_way = correct(host, other);
  return one_way.ok() ? correct(other, host) : one_way;
}

}  // namespace strata::tests
