#include "cli/comparison.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/compare_display.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "common/clock.h"
#include "compare/report/report.h"

namespace strata::cli {

Comparison::Comparison(Options options) : options_(std::move(options)) {}

int Comparison::Run(compare::Runner* runner) {
  CompareDisplay display(stdout, TerminalColumns());
  const RealClock clock;
  std::vector<compare::Runner*> runners;
  if (runner != nullptr) runners.push_back(runner);
  compare::Course course(
      options_.plans, options_.folder, runners, &clock,
      {.on_progress = [&](const auto& progress) { display.ShowProgress(progress); },
       .on_run = [&](const auto& progress,
                     const auto& record) { display.ShowEnd(progress, record); }});
  {
    absl::MutexLock lock(&mutex_);
    course_ = &course;
    if (stopped_) course.Stop();
  }
  auto records = course.Run();
  {
    absl::MutexLock lock(&mutex_);
    course_ = nullptr;
  }
  display.End();
  if (records.ok()) return Report(*std::move(records));
  return PrintStopped(records.status(), course.done());
}

void Comparison::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  if (course_ != nullptr) course_->Stop();
}

int Comparison::PrintStopped(const absl::Status& why, size_t done) {
  if (absl::IsInvalidArgument(why)) return PrintError(why);
  return PrintError(
      absl::StrFormat("%s; %d of %d runs are in %s, the same command goes on with the others",
                      why.message(), done, options_.plans.size(), options_.folder->dir()),
      kExitFailed);
}

int Comparison::Report(std::vector<proto::RunRecord> records) {
  compare::ReportInput input;
  const proto::Job& job = options_.folder->campaign().job();
  input.title = job.name();
  input.modes = options_.modes;
  input.runs = std::move(records);
  input.straggler = StragglerWords(job);
  input.target_accuracy = options_.target_accuracy;
  input.equivalence_margin = options_.equivalence_margin;
  const absl::StatusOr<compare::Summary> summary = compare::Summarize(input);
  if (!summary.ok()) return PrintError(summary.status());
  std::printf("\n%s\n", Table(summary->rows).c_str());
  for (const std::string& line : summary->verdict) std::printf("%s\n", line.c_str());
  const std::string& dir = options_.folder->dir();
  const absl::Status written = compare::WriteReport(input, dir);
  if (!written.ok()) return PrintError(std::string(written.message()), kExitFailed);
  std::printf("\nreport: %s/report/index.html\nfigures: %s/report.json\n", dir.c_str(),
              dir.c_str());
  std::fflush(stdout);
  return kExitOk;
}

}  // namespace strata::cli
