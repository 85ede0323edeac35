#include "cli/render/top_screen.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/options/terminal.h"
#include "cli/render/progress.h"
#include "cli/render/render.h"
#include "cli/render/table.h"
#include "common/control/coordinator_client.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

constexpr size_t kStuckMax = 6;
constexpr size_t kEndedMax = 5;
constexpr int kBarColumns = 14;
constexpr int kTableRowsMin = 4;
// A daemon at this share of a limit is shown as near it.
constexpr double kNear = 0.9;

constexpr char kBold[] = "1", kRed[] = "1;31", kYellow[] = "33", kGreen[] = "32", kDim[] = "2";

struct Line {
  std::string text;
  const char* colour = nullptr;  // null: the default
};
using Lines = std::vector<Line>;

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns at most this many characters, without terminal control characters.
std::string Cut(absl::string_view text, int columns) {
  std::string cut;
  int width = 0;
  while (!text.empty()) {
    const bool is_control = BeginsWithControl(text);
    const size_t bytes = CharacterBytes(text);
    if (width++ == columns) {
      const size_t last = cut.find_last_not_of(' ');
      cut.resize(std::min(cut.size(), last == std::string::npos ? 0 : last + 1));
      while (!cut.empty() && Continues(cut.back())) cut.pop_back();
      if (!cut.empty()) cut.back() = '~';
      return cut;
    }
    absl::StrAppend(&cut, is_control ? "?" : text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return cut;
}

// "[#####-------]  42 %"; of a program that does not say how many steps it makes what is known:
// "[#####-------]  epoch 2.10/5", "epoch 2.10" or "120 steps".
std::string HowFar(const proto::Progress& progress) {
  if (progress.total_steps() > 0) {
    const double share =
        std::min(1.0, static_cast<double>(progress.step()) / progress.total_steps());
    return absl::StrFormat("%s %3d %%", Bar(share, kBarColumns), static_cast<int>(share * 100));
  }
  if (progress.epoch() > 0 && progress.epochs() > 0) {
    const double share = std::min(1.0, progress.epoch() / progress.epochs());
    return absl::StrFormat("%s  epoch %.2f/%d", Bar(share, kBarColumns), progress.epoch(),
                           progress.epochs());
  }
  if (progress.epoch() > 0) return absl::StrFormat("epoch %.2f", progress.epoch());
  return progress.step() > 0 ? Counted(progress.step(), "step") : "-";
}

std::string Figure(double value, bool is_known) {
  return is_known ? absl::StrFormat("%.4f", value) : "-";
}

// "12345", "1.2M"
std::string Rate(double per_s) {
  if (per_s >= 1e6) return absl::StrFormat("%.1fM", per_s / 1e6);
  return per_s > 0 ? absl::StrCat(std::llround(per_s)) : "-";
}

// ---- the parts ----

Line Head(const TopScene& scene, absl::Time now) {
  uint32_t slots = 0, used = 0;
  std::map<proto::Role, std::pair<int, int>> alive;  // of how many
  for (const auto& daemon : scene.nodes.daemons()) {
    auto& [there, all] = alive[daemon.role()];
    ++all;
    there += daemon.alive();
    if (!daemon.alive()) continue;
    slots += daemon.slots();
    used += daemon.slots_used();
  }
  const auto count = [&](proto::JobState state) {
    return std::count_if(scene.jobs.begin(), scene.jobs.end(),
                         [&](const proto::JobStatus& job) { return job.state() == state; });
  };
  const auto& [servers, all_servers] = alive[proto::SERVER];
  const auto& [workers, all_workers] = alive[proto::WORKER];
  return {absl::StrFormat(
              "strata top  %s  servers %d/%d  workers %d/%d  slots %d/%d used  jobs %d running, "
              "%d queued  %s",
              scene.coordinator, servers, all_servers, workers, all_workers, used, slots,
              count(proto::RUNNING), count(proto::QUEUED), TimeText(now)),
          kBold};
}

// The coordinator does not answer.
void AddProblem(const TopScene& scene, absl::Time now, Lines* lines) {
  if (scene.problem.empty()) return;
  lines->push_back({absl::StrCat("! ", scene.problem), kRed});
  const bool is_old = scene.taken > absl::InfinitePast();
  lines->push_back({is_old ? absl::StrCat("  what follows was so ",
                                          FormatDuration(absl::ToDoubleSeconds(now - scene.taken)),
                                          " ago; it is asked again")
                           : "  it is asked again",
                    kRed});
}

void AddStuck(const TopScene& scene, Lines* lines) {
  std::vector<std::pair<const proto::JobStatus*, const proto::Wait*>> waits;
  for (const auto& job : scene.jobs) {
    if (job.state() != proto::RUNNING) continue;
    for (const auto& wait : job.waits()) waits.emplace_back(&job, &wait);
  }
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) {
    return a.second->seconds() > b.second->seconds();
  });
  lines->push_back({});
  if (waits.empty()) {
    lines->push_back({"nothing is stuck", kGreen});
    return;
  }
  for (size_t i = 0; i < waits.size() && i < kStuckMax; ++i) {
    const auto& [job, wait] = waits[i];
    const bool is_stuck = wait->seconds() >= kStuckSeconds;
    lines->push_back({absl::StrCat(is_stuck ? "STUCK" : "waits", "  job ", job->job_id(), " (",
                                   job->name(), is_stuck ? ") waits: " : "): ", wait->text()),
                      is_stuck ? kRed : kYellow});
  }
  if (waits.size() > kStuckMax) {
    const bool is_stuck = waits[kStuckMax].second->seconds() >= kStuckSeconds;
    lines->push_back({absl::StrCat("       and ", waits.size() - kStuckMax, " more"),
                      is_stuck ? kRed : kYellow});
  }
}

// Returns jobs that run or wait, by id, then the newest of the ended ones.
std::vector<const proto::JobStatus*> Chosen(const std::vector<proto::JobStatus>& jobs) {
  std::vector<const proto::JobStatus*> chosen, ended;
  for (const auto& job : jobs) {
    (control::HasEnded(job.state()) ? ended : chosen).push_back(&job);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const auto* a, const auto* b) {
    return std::make_tuple(a->state() != proto::RUNNING, a->job_id()) <
           std::make_tuple(b->state() != proto::RUNNING, b->job_id());
  });
  std::stable_sort(ended.begin(), ended.end(),
                   [](const auto* a, const auto* b) { return a->ended_ms() > b->ended_ms(); });
  ended.resize(std::min(ended.size(), kEndedMax));
  chosen.insert(chosen.end(), ended.begin(), ended.end());
  return chosen;
}

Row RowOf(const proto::JobStatus& job) {
  const proto::Progress& progress = job.progress();
  const bool runs = job.state() == proto::RUNNING;
  return {absl::StrCat(job.job_id()),
          job.name(),
          StateName(job.state()),
          job.mode(),
          absl::StrCat(job.ranks()),
          HowFar(progress),
          absl::StrCat(progress.step()),
          runs && progress.eta_s() >= 0 ? FormatDuration(progress.eta_s()) : "-",
          runs ? Rate(progress.samples_per_s()) : "-",
          Figure(progress.loss(), progress.loss() != 0),
          Figure(progress.test_accuracy(), progress.test_accuracy() >= 0),
          job.reason()};
}

const char* ColourOf(const proto::JobStatus& job) {
  if (job.state() == proto::FAILED) return kRed;
  if (job.state() == proto::QUEUED) return kYellow;
  return control::HasEnded(job.state()) ? kDim : nullptr;
}

// At most `rows_max` lines of a table below its first, and how many `nouns` are left out.
// `colours` of the rows below the first.
void AddTable(std::vector<Row> rows, const std::vector<const char*>& colours, size_t rows_max,
              const std::string& noun, Lines* lines) {
  const size_t left_out = rows.size() - 1 > rows_max ? rows.size() - rows_max : 0;
  rows.resize(rows.size() - left_out);
  const std::string text = Table(rows);
  size_t row = 0;
  for (size_t from = 0; from < text.size(); ++row) {
    const size_t end = text.find('\n', from);
    lines->push_back({text.substr(from, end - from), row == 0 ? kBold : colours[row - 1]});
    from = end + 1;
  }
  if (left_out > 0) lines->push_back({Counted(left_out, absl::StrCat("more ", noun)), kDim});
}

void AddJobs(const TopScene& scene, size_t rows_max, Lines* lines) {
  lines->push_back({});
  if (scene.jobs.empty()) {
    lines->push_back({"no jobs"});
    return;
  }
  std::vector<Row> rows = {{"JOB", "NAME", "STATE", "MODE", "RANKS", "PROGRESS", "STEP", "ETA",
                            "SAMPLES/S", "LOSS", "ACCURACY", "REASON"}};
  std::vector<const char*> colours;
  for (const proto::JobStatus* job : Chosen(scene.jobs)) {
    rows.push_back(RowOf(*job));
    colours.push_back(ColourOf(*job));
  }
  AddTable(std::move(rows), colours, rows_max, "job", lines);
}

// Returns the resource nearest to its limit ("memory 93 %"), and how near it is.
std::pair<std::string, double> Nearest(const proto::DaemonStatus& daemon) {
  std::pair<std::string, double> nearest{"-", 0};
  for (const auto& resource : daemon.resources()) {
    if (resource.limit() == 0) continue;
    const double share = static_cast<double>(resource.used()) / resource.limit();
    if (share <= nearest.second) continue;
    nearest = {absl::StrFormat("%s %.0f %%", resource.name(), share * 100), share};
  }
  return nearest;
}

uint64_t CountRefusals(const proto::DaemonStatus& daemon) {
  uint64_t count = 0;
  for (const auto& refusal : daemon.refusals()) {
    if (!refusal.expected()) count += refusal.count();
  }
  return count;
}

void AddDaemons(const TopScene& scene, size_t rows_max, Lines* lines) {
  std::vector<const proto::DaemonStatus*> daemons;
  for (const auto& daemon : scene.nodes.daemons()) daemons.push_back(&daemon);
  std::stable_sort(daemons.begin(), daemons.end(), [](const auto* a, const auto* b) {
    return std::make_tuple(a->alive(), !a->draining(), Nearest(*a).second < kNear) <
           std::make_tuple(b->alive(), !b->draining(), Nearest(*b).second < kNear);
  });
  lines->push_back({});
  if (daemons.empty()) {
    lines->push_back({"no daemon has registered"});
    return;
  }
  std::vector<Row> rows = {
      {"DAEMON", "ROLE", "STATE", "SLOTS", "JOBS", "HEARD", "NEAREST LIMIT", "REFUSED"}};
  std::vector<const char*> colours;
  for (const auto* daemon : daemons) {
    const bool works = daemon->role() == proto::WORKER;
    rows.push_back({daemon->name(), works ? "worker" : "server", DaemonStateText(*daemon),
                    works ? absl::StrCat(daemon->slots_used(), "/", daemon->slots()) : "-",
                    absl::StrCat(daemon->jobs_size()),
                    absl::StrFormat("%.1f s", daemon->last_heartbeat_ms_ago() / 1e3),
                    Nearest(*daemon).first, absl::StrCat(CountRefusals(*daemon))});
    colours.push_back(!daemon->alive()                                         ? kRed
                      : daemon->draining() || Nearest(*daemon).second >= kNear ? kYellow
                                                                               : nullptr);
  }
  AddTable(std::move(rows), colours, rows_max, "daemon", lines);
}

}  // namespace

std::string TopScreen(const TopScene& scene, const TopSize& size, absl::Time now) {
  Lines lines = {Head(scene, now)};
  AddProblem(scene, now, &lines);
  if (scene.problem.empty() || scene.taken > absl::InfinitePast()) {
    AddStuck(scene, &lines);
    size_t jobs = SIZE_MAX, daemons = SIZE_MAX;
    if (size.rows > 0) {
      // Below the heads of two tables, with a blank line before each; a third for daemons at least.
      const int left = std::max(kTableRowsMin, size.rows - static_cast<int>(lines.size()) - 4);
      const int wanted = static_cast<int>(Chosen(scene.jobs).size());
      daemons = std::min(scene.nodes.daemons_size(), std::max(left / 3, left - wanted));
      jobs = left - daemons;
    }
    AddJobs(scene, jobs, &lines);
    AddDaemons(scene, daemons, &lines);
  }
  std::string text;
  for (const Line& line : lines) {
    const std::string cut = Cut(line.text, size.columns);
    if (size.colours && line.colour != nullptr && !cut.empty()) {
      absl::StrAppend(&text, "\033[", line.colour, "m", cut, "\033[0m\n");
    } else {
      absl::StrAppend(&text, cut, "\n");
    }
  }
  return text;
}

}  // namespace strata::cli
