#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "cli/bench/bench.h"
#include "cli/bench/train_bench.h"
#include "cli/bench/train_case.h"
#include "cli/bench/train_report.h"
#include "cli/options/gpu_options.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/own_binary.h"
#include "cli/options/terminal.h"
#include "cli/render/table.h"
#include "common/event_fd.h"
#include "common/job/job.h"

namespace strata::cli {
namespace {

struct BenchTrainOptions {
  TrainBenchOptions bench;
  TrainReport report;
  std::vector<std::string> models = {"small"};
  uint32_t batch = 0;
  std::string device;
  std::string precision;
  GpuOptions gpus;
  JobOptions job;
  std::string out;
  bool json = false;
};

// Returns the settings of --device and --precision, then those of --set.
std::vector<std::string> SettingsOf(const BenchTrainOptions& options) {
  std::vector<std::string> settings;
  if (!options.device.empty()) settings.push_back("device=" + options.device);
  if (!options.precision.empty()) settings.push_back("model.precision=" + options.precision);
  settings.insert(settings.end(), options.job.settings.begin(), options.job.settings.end());
  return settings;
}

bool IsExact(const proto::Encoding& encoding) { return encoding.codec() == proto::Encoding::FP32; }

// A model to measure, and facts known of it beforehand.
struct Subject {
  TrainBenchOptions bench;
  TrainedModel model;
};

absl::StatusOr<Subject> SubjectOf(const BenchTrainOptions& options, const std::string& name,
                                  const proto::Job& as_written) {
  proto::Job job = as_written;
  FillDefaults(&job);
  if (!job.has_model()) return absl::InvalidArgumentError(name + ": a job of the zoo is needed");
  Subject subject{options.bench, {}};
  TrainedModel& model = subject.model;
  model.name = name;
  model.batch = job.data().batch_per_rank();
  model.precision = proto::Model::Precision_Name(job.model().precision());
  model.is_on_gpu = job.device() == proto::Job::GPU;
  model.compares_bits = !model.is_on_gpu;
  if (!model.is_on_gpu && absl::c_linear_search(options.bench.cases.modes, "nccl")) {
    return absl::InvalidArgumentError("--modes nccl: needs --device GPU");
  }
  subject.bench.job_text = JobToText(as_written);
  subject.bench.batch = model.batch;
  subject.bench.ranks_at_once = model.is_on_gpu ? 1 : options.report.machine.cores;
  subject.bench.repeats_bits = model.compares_bits;
  subject.bench.equals_none = IsExact(job.push()) && IsExact(job.pull());
  return subject;
}

absl::StatusOr<std::vector<Subject>> SubjectsOf(const BenchTrainOptions& options) {
  JobOptions job = options.job;
  job.settings = SettingsOf(options);
  std::vector<Subject> subjects;
  auto add = [&](const std::string& name,
                 const absl::StatusOr<proto::Job>& as_written) -> absl::Status {
    if (!as_written.ok()) return as_written.status();
    auto subject = SubjectOf(options, name, *as_written);
    if (subject.ok()) subjects.push_back(*std::move(subject));
    return subject.status();
  };
  absl::Status status;
  if (!job.path.empty()) {
    status = add(job.path, LoadJobAsWritten(job));
  } else {
    const auto models = ParseModels(options.models);
    if (!models.ok()) return models.status();
    for (const std::string& model : *models) {
      job.path = model;
      const bool on_gpu = options.device == "GPU";
      if (status.ok()) {
        status = add(model, JobAsWrittenFrom(MakeJobText(model, options.batch, on_gpu), job));
      }
    }
  }
  if (!status.ok()) return status;
  return subjects;
}

// Adds the GPUs, and the room on them, to subjects that compute there.
absl::Status AddGpus(const GpuOptions& given, std::vector<Subject>* subjects, TrainReport* report) {
  GpuOptions gpus = given;
  if (gpus.ranks_per_gpu == 0) gpus.ranks_per_gpu = report->cases.ranks_max;
  GpuRoom room = {.gpus = {}, .ranks_per_gpu = gpus.ranks_per_gpu};
  for (Subject& subject : *subjects) {
    if (!subject.model.is_on_gpu) continue;
    if (room.gpus.empty()) {
      const auto found = FindGpus(gpus);
      if (!found.ok()) return found.status();
      if (found->gpus.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("--device GPU, but there is none: ", found->why_none));
      }
      for (const proto::Gpu& gpu : found->gpus) {
        room.gpus.push_back(gpu.index());
        report->gpus.push_back(gpu.name());
      }
      gpus.gpus.clear();  // each job is told its own
    }
    subject.bench.cluster = DescribeGpus(gpus);
    subject.bench.gpus = room;
  }
  return absl::OkStatus();
}

void PrintRules(const TrainReport& report) {
  for (const std::string& rule : ListRules(report)) PrintF(stdout, "%s\n", rule);
  std::fflush(stdout);
}

void PrintModel(const TrainedModel& model) {
  PrintText(stdout, absl::StrCat("\n", ModelTitle(model), "\n", Table(TableRows(model))));
  std::fflush(stdout);
}

// Measures all subjects and shows each when it is done.
absl::Status Measure(const std::vector<Subject>& subjects, bool is_text, int stop_fd,
                     TrainReport* report) {
  for (size_t i = 0; i < subjects.size(); ++i) {
    TrainBenchOptions bench = subjects[i].bench;
    bench.stop_fd = stop_fd;
    TrainedModel& model = report->models[i];
    // Figures may go to standard output; progress does not disturb them.
    auto result = RunTrainBench(
        bench, [&](const std::string& line) { PrintF(stderr, "%s  %s\n", model.name, line); });
    if (!result.ok()) return result.status();
    model.result = *std::move(result);
    if (is_text) PrintModel(model);
  }
  return absl::OkStatus();
}

int Finish(const BenchTrainOptions& options, const TrainReport& report) {
  if (options.json) PrintJson(stdout, ToJson(report));
  if (!options.out.empty()) {
    const absl::Status written = WriteTrainReport(report, options.out);
    if (!written.ok()) return PrintError(written);
  }
  for (const TrainedModel& model : report.models) {
    if (model.result.wrong.empty()) continue;
    return PrintError(absl::StrCat(model.name, ": ", model.result.wrong), kExitFailed);
  }
  return kExitOk;
}

int RunTrain(BenchTrainOptions options) {
  const auto binary = OwnBinary();
  if (!binary.ok()) return PrintError(binary.status());
  options.bench.binary = binary->string();
  TrainReport& report = options.report;
  report.machine = ThisMachine();
  const absl::Status modes = CheckModes(options.bench.cases.modes);
  if (!modes.ok()) return PrintError(modes);
  auto subjects = SubjectsOf(options);
  if (!subjects.ok()) return PrintError(subjects.status());
  const auto stop = EventFd::Create();
  if (!stop.ok()) return PrintError(stop.status());
  Interrupt interrupt;
  interrupt.Catch([&] { stop->Notify(); });
  report.cases = options.bench.cases;
  report.steps = options.bench.steps;
  report.seconds = options.bench.seconds;
  report.rounds = options.bench.rounds;
  for (const Subject& subject : *subjects) report.models.push_back(subject.model);
  const absl::Status gpus = AddGpus(options.gpus, &*subjects, &report);
  if (!gpus.ok()) return PrintError(gpus);
  if (!options.json) PrintRules(report);
  const absl::Status status = Measure(*subjects, !options.json, stop->fd(), &report);
  if (absl::IsCancelled(status)) {
    return PrintError(std::string(status.message()), interrupt.exit_status());
  }
  return status.ok() ? Finish(options, report) : PrintError(status);
}

void AddJobParts(CLI::App* command, BenchTrainOptions* options) {
  CLI::Option* job =
      command->add_option("--job", options->job.path,
                          "Job whose model, data and optimizer are taken (default: models)");
  command
      ->add_option("--models,--model", options->models,
                   "Of the zoo, on made-up data; small: those for small images; all")
      ->delimiter(',')
      ->capture_default_str()
      ->excludes(job);
  command
      ->add_option("--batch", options->batch,
                   "Their samples per rank and step (default: 64; on a CPU 8 of 224 x 224)")
      ->check(CLI::Range(1, 65536))
      ->excludes(job);
  command->add_option("--device", options->device, "CPU or GPU (default: the job's)")
      ->transform(CLI::IsMember({"CPU", "GPU"}, CLI::ignore_case));
  command->add_option("--precision", options->precision, "FP32, TF32 or BF16, on a GPU")
      ->transform(CLI::IsMember({"FP32", "TF32", "BF16"}, CLI::ignore_case));
  AddGpuOptions(command, &options->gpus);
  command->add_option("--set", options->job.settings,
                      "Changes the job: PATH=VALUE (see proto/job.proto)");
}

void AddCaseParts(CLI::App* command, TrainCaseOptions* cases) {
  command->add_option("--ranks", cases->ranks_max, "1, 2, 4, ... ranks, and these")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--modes,--exchanges", cases->modes, "Of sync, lazy, async, ring, nccl")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--ranks-per-node", cases->ranks_per_node,
                   "Default: all on one node; in a ring a node each")
      ->check(CLI::Range(1, 64));
  command->add_option("--servers", cases->servers, "Servers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

}  // namespace

void AddTrainBench(CLI::App* bench, Invocation* invocation) {
  auto options = std::make_shared<BenchTrainOptions>();
  CLI::App* command = bench->add_subcommand(
      "train",
      "Images per second by ranks, with each exchange, beside ranks that exchange nothing");
  TrainBenchOptions& train = options->bench;
  AddJobParts(command, options.get());
  AddCaseParts(command, &train.cases);
  CLI::Option* seconds = command->add_option("--seconds", train.seconds, "Of the base, each time");
  seconds->check(CLI::Range(0.01, 3600.0))->capture_default_str();
  command
      ->add_option("--steps", train.steps,
                   "Steps of each rank, whatever they take; the first eighth warms up")
      ->check(CLI::Range(2, 1000000))
      ->excludes(seconds);
  command->add_option("--rounds", train.rounds, "How often all are run, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--out", options->out,
                      "Directory for train.json and a page with tables and pictures");
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return RunTrain(*options); }; });
}

}  // namespace strata::cli
