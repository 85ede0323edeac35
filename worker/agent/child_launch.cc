#include "worker/agent/child_launch.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/cores.h"
#include "common/counted.h"
#include "common/log.h"
#include "google/protobuf/text_format.h"

namespace strata::worker {
namespace {

constexpr char kLaunchPath[] = "/proc/self/fd/4";
static_assert(kLaunchFd == 4);
constexpr char kThreadsName[] = "OMP_NUM_THREADS";
constexpr char kLaunchName[] = "{launch}", kSeedName[] = "{seed}";

}  // namespace

std::vector<std::string> ChildArguments(const proto::Job& job, bool is_aggregator) {
  if (is_aggregator) {
    return {"strata",    "aggregator",   "--launch",
            kLaunchPath, "--log-format", LogFormatName(CurrentLogFormat())};
  }
  if (!job.has_program()) return {"strata", "rank", "--launch", kLaunchPath};
  std::vector<std::string> args = {job.program().path()};
  bool placed = std::any_of(job.program().env().begin(), job.program().env().end(),
                            [](auto& each) { return absl::StrContains(each, kLaunchName); });
  for (const std::string& arg : job.program().args()) {
    placed = placed || absl::StrContains(arg, kLaunchName);
    args.push_back(absl::StrReplaceAll(
        arg, {{kLaunchName, kLaunchPath}, {kSeedName, absl::StrCat(job.seed())}}));
  }
  if (!placed) args.push_back(kLaunchPath);
  return args;
}

std::vector<std::string> ChildEnvironment(const proto::Launch& launch) {
  const proto::Job& job = launch.record().job();
  std::vector<std::string> environment;
  for (const std::string& variable : job.program().env()) {
    environment.push_back(
        absl::StrReplaceAll(variable, {{kLaunchName, kLaunchPath},
                                       {"{rank}", absl::StrCat(launch.rank())},
                                       {"{ranks}", absl::StrCat(job.ranks())},
                                       {"{local_rank}", absl::StrCat(launch.local_rank())},
                                       {"{local_ranks}", absl::StrCat(launch.local_ranks())},
                                       {"{node}", absl::StrCat(launch.node())},
                                       {kSeedName, absl::StrCat(job.seed())}}));
  }
  return environment;
}

RankThreads ThreadsOfRanks(const proto::Launch& launch, uint32_t ranks_on_machine,
                           const Environment& own) {
  const proto::Job& job = launch.record().job();
  if (!job.has_program()) return {.text = "1 thread each"};
  std::string said = Variable(own, kThreadsName);
  for (const std::string& variable : job.program().env()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (parts.first == kThreadsName) said = parts.second;
  }
  if (!said.empty()) {
    return {.text = absl::StrCat(kThreadsName, "=", absl::CHexEscape(said), " each")};
  }
  // An older coordinator does not say how many there are.
  const uint32_t ranks = std::max(ranks_on_machine, launch.local_ranks());
  const uint32_t cores = UsableCores();
  const uint32_t threads = std::max(1U, cores / std::max(1U, ranks));
  RankThreads result;
  if (threads != AllowedProcessors()) result.environment = absl::StrCat(kThreadsName, "=", threads);
  result.text = absl::StrCat(Counted(threads, "thread"), " each: ", Counted(cores, "core"), " for ",
                             Counted(ranks, "rank"), " on this machine");
  return result;
}

std::string RandomSocketName() {
  std::random_device random;
  return absl::StrFormat("strata-%08x%08x", random(), random());
}

proto::Launch LaunchOfNode(const proto::StartNode& start, const proto::LogicalNode& self) {
  proto::Launch launch;
  *launch.mutable_record() = start.record();
  launch.set_node(self.node());
  launch.set_incarnation(start.incarnation());
  launch.set_first_rank(self.first_rank());
  launch.set_local_ranks(self.ranks());
  launch.set_channel_fd(kChannelFd);
  return launch;
}

absl::StatusOr<UniqueFd> LaunchFile(const proto::Launch& launch) {
  // Fields of a newer coordinator have no names here, and cannot be read back.
  google::protobuf::TextFormat::Printer printer;
  printer.SetHideUnknownFields(true);
  std::string text;
  printer.PrintToString(launch, &text);
  UniqueFd file(memfd_create("strata-launch", MFD_CLOEXEC));
  if (file.get() < 0 ||
      write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return absl::ErrnoToStatus(errno, "cannot make a launch file");
  }
  return file;
}

}  // namespace strata::worker
