// Measures what virtual time adds to the gradients that it computes: runs of a job on nodes of
// several ranks beside as many passes forward and backward alone, on as many threads, in turn. The
// processor's time counts: other processes share the clock's.
//
//   virtual_time_benchmark [--tiny] [--mode MODE] [--nodes N] [--ranks R] [--steps S] [--threads T]
//                          [--model MODEL] [--batch B]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/buffer_pool.h"
#include "common/cores.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "compare/virtual_time/cluster_file.h"
#include "compare/virtual_time/virtual_run.h"
#include "compare/virtual_time/zoo_problem.h"

namespace strata::compare {
namespace {

struct Settings {
  std::string mode = "sync", model = "lenet5";
  uint32_t nodes = 64, ranks = 8, steps = 4, threads = UsableCores(), batch = 64;
  int rounds = 3;
};

// Time by the clock, and of the processor in all threads.
struct Seconds {
  double wall = 0, processor = 0;
};

class Stopwatch {
 public:
  Seconds Stop() const {
    return {absl::ToDoubleSeconds(absl::Now() - wall_), Processor() - processor_};
  }

 private:
  static double Processor() {
    rusage use;
    getrusage(RUSAGE_SELF, &use);
    return absl::ToDoubleSeconds(absl::DurationFromTimeval(use.ru_utime) +
                                 absl::DurationFromTimeval(use.ru_stime));
  }
  const absl::Time wall_ = absl::Now();
  const double processor_ = Processor();
};

absl::StatusOr<proto::Job> JobOf(const Settings& settings) {
  const uint32_t ranks = settings.nodes * settings.ranks;
  absl::StatusOr<proto::Job> job =
      ParseJob(absl::StrCat("name: \"b\" model { zoo: \"", settings.model, "\" } ranks: ", ranks,
                            " max_steps: ", settings.steps,
                            " data { synthetic { train_samples: ", ranks * settings.batch,
                            " test_samples: 1 } batch_per_rank: ", settings.batch,
                            " } evaluation { every_steps: 1000000 } schedule { base_lr: 0.01 }"),
               "job");
  if (!job.ok()) return job;
  const absl::StatusOr<std::vector<std::string>> mode = SettingsOfMode(settings.mode);
  if (!mode.ok()) return mode.status();
  if (absl::Status status = ApplySettings(*mode, &*job); !status.ok()) return status;
  FillDefaults(&*job);
  if (absl::Status status = ValidateJob(*job); !status.ok()) return status;
  return job;
}

absl::StatusOr<ClusterFile> ParseTestCluster(const Settings& settings) {
  absl::StatusOr<proto::Cluster> cluster = ParseCluster(
      absl::StrCat("nodes { count: ", settings.nodes, " ranks: ", settings.ranks,
                   " compute { normal { mean_ms: 20 deviation_ms: 1 } } link { gbit_per_s: 10 } } "
                   "servers { count: ",
                   std::min(settings.nodes, 8u), " link { gbit_per_s: 10 } }"),
      "cluster");
  if (!cluster.ok()) return cluster.status();
  FillClusterDefaults(&*cluster);
  return ClusterFile{.cluster = *std::move(cluster), .traces = {}};
}

// Measures a run.
absl::StatusOr<Seconds> RunSeconds(const Settings& settings, const proto::Job& job,
                                   const ClusterFile& cluster,
                                   const std::shared_ptr<const TrainingData>& data) {
  const Stopwatch watch;
  const absl::StatusOr<VirtualOutcome> outcome = RunInVirtualTime(
      {.mode = settings.mode, .job = job}, cluster, data, {.threads = settings.threads});
  if (!outcome.ok()) return outcome.status();
  const Seconds seconds = watch.Stop();
  if (!outcome->record.failure().empty()) return absl::InternalError(outcome->record.failure());
  if (outcome->record.samples() != uint64_t{settings.steps} * job.ranks() * settings.batch) {
    return absl::InternalError("the run has used other samples than it should");
  }
  return seconds;
}

// Measures as many passes, on two arenas of gradients per thread.
absl::StatusOr<Seconds> GradientSeconds(const Settings& settings, const proto::Job& job,
                                        const std::shared_ptr<const TrainingData>& data) {
  const Stopwatch watch;
  auto problem = ZooProblem::Create(job, data);
  if (!problem.ok()) return problem.status();
  std::vector<float> weights((*problem)->tensors().elements());
  (*problem)->FirstWeights(weights.data());
  std::vector<std::unique_ptr<RankCompute>> ranks;
  for (uint32_t i = 0; i < std::min(2 * settings.threads, job.ranks()); ++i) {
    ranks.push_back((*problem)->MakeRank(i, weights.data()));
  }
  ComputePool pool(settings.threads);
  const uint64_t passes = uint64_t{settings.steps} * job.ranks();
  for (uint64_t i = 0; i < passes + ranks.size(); ++i) {
    RankCompute& rank = *ranks[i % ranks.size()];
    if (i >= ranks.size()) {
      if (const auto loss = rank.Finish(&pool); !loss.ok()) return loss.status();
    }
    if (i < passes) rank.Begin(i / job.ranks(), &pool);
  }
  return watch.Stop();
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Measure(const Settings& settings) {
  const absl::StatusOr<proto::Job> job = JobOf(settings);
  if (!job.ok()) return job.status();
  const absl::StatusOr<ClusterFile> cluster = ParseTestCluster(settings);
  if (!cluster.ok()) return cluster.status();
  const auto data = LoadTrainingData(*job);
  if (!data.ok()) return data.status();
  std::printf("%s, %s, %u nodes x %u ranks, batch %u, %u steps, %u threads\n",
              settings.model.c_str(), settings.mode.c_str(), settings.nodes, settings.ranks,
              settings.batch, settings.steps, settings.threads);
  std::vector<double> processor, wall;
  for (int round = 0; round < settings.rounds; ++round) {
    const absl::StatusOr<Seconds> alone = GradientSeconds(settings, *job, *data);
    if (!alone.ok()) return alone.status();
    const absl::StatusOr<Seconds> run = RunSeconds(settings, *job, *cluster, *data);
    if (!run.ok()) return run.status();
    processor.push_back(run->processor / alone->processor);
    wall.push_back(run->wall / alone->wall);
    std::printf("gradients alone %.3f s (processor %.3f s), run %.3f s (processor %.3f s)\n",
                alone->wall, alone->processor, run->wall, run->processor);
  }
  std::printf("virtual time adds %.1f %% of processor time, %.1f %% of time; goal 10 %%\n",
              100 * (MedianOf(processor) - 1), 100 * (MedianOf(wall) - 1));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  TuneAllocator();
  Settings settings;
  const std::map<std::string, uint32_t*> numbers = {{"--nodes", &settings.nodes},
                                                    {"--ranks", &settings.ranks},
                                                    {"--steps", &settings.steps},
                                                    {"--threads", &settings.threads},
                                                    {"--batch", &settings.batch}};
  const std::map<std::string, std::string*> names = {{"--mode", &settings.mode},
                                                     {"--model", &settings.model}};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--tiny") {
      settings.nodes = settings.ranks = settings.steps = 2;
      settings.batch = 4;
      settings.rounds = 1;
    } else if (i + 1 < argc && numbers.count(option) > 0) {
      *numbers.at(option) = static_cast<uint32_t>(std::max(1, std::atoi(argv[++i])));
    } else if (i + 1 < argc && names.count(option) > 0) {
      *names.at(option) = argv[++i];
    } else {
      std::fprintf(stderr, "virtual_time_benchmark: %s is no option, see the source\n",
                   option.c_str());
      return 2;
    }
  }
  if (const absl::Status status = Measure(settings); !status.ok()) {
    std::fprintf(stderr, "virtual_time_benchmark: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace strata::compare

int main(int argc, char** argv) { return strata::compare::Main(argc, argv); }
