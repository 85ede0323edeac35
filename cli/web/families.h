#ifndef STRATA_CLI_WEB_FAMILIES_H_
#define STRATA_CLI_WEB_FAMILIES_H_

#include "absl/strings/string_view.h"

namespace strata::cli::metrics {

enum class Kind { kGauge, kCounter };

// The level of detail of a family. If not all series fit, the finest are dropped first.
enum class Detail { kCluster, kJob, kDaemon, kNode, kShard, kResource, kRank };

struct Family {
  absl::string_view name;  // without a counter's _total
  Kind kind = Kind::kGauge;
  absl::string_view unit;  // suffix of the name; empty: a number
  Detail detail = Detail::kCluster;
  absl::string_view help;
};

// Cluster.
inline constexpr Family kReachable{"strata_coordinator_reachable", Kind::kGauge, "",
                                   Detail::kCluster,
                                   "Whether the coordinator answered the newest question, 1 or 0."};
inline constexpr Family kSceneAge{
    "strata_scene_age_seconds", Kind::kGauge, "seconds", Detail::kCluster,
    "Time since the coordinator last answered. Absent: it never has."};
inline constexpr Family kLeftOut{
    "strata_series_left_out", Kind::kGauge, "", Detail::kCluster,
    "Series that this scrape lacks, as it would have too many; the finest go first."};
inline constexpr Family kCoordinatorUsed{
    "strata_coordinator_resource_used", Kind::kGauge, "", Detail::kCluster,
    "What the coordinator uses of something that it has a limit for."};
inline constexpr Family kCoordinatorLimit{"strata_coordinator_resource_limit", Kind::kGauge, "",
                                          Detail::kCluster,
                                          "The coordinator's limit for it. Absent: none."};

// Jobs.
inline constexpr Family kJobState{
    "strata_job_state", Kind::kGauge, "", Detail::kJob,
    "1 for the state that the job is in, 0 for others. Ended jobs leave after 5 minutes."};
inline constexpr Family kJobWait{
    "strata_job_wait_seconds", Kind::kGauge, "seconds", Detail::kJob,
    "How long a rank, or a whole node (empty rank), has held the job up, and is still waited for."};
inline constexpr Family kJobSteps{"strata_job_steps", Kind::kCounter, "", Detail::kJob,
                                  "Steps that the slowest rank has made."};
inline constexpr Family kJobStepsPlanned{"strata_job_steps_planned", Kind::kGauge, "", Detail::kJob,
                                         "Steps that the job is to make."};
inline constexpr Family kJobSamples{"strata_job_samples", Kind::kCounter, "", Detail::kJob,
                                    "Samples that all ranks have trained with."};
inline constexpr Family kJobSamplesPerSecond{"strata_job_samples_per_second", Kind::kGauge, "",
                                             Detail::kJob, "Samples per second of all ranks."};
inline constexpr Family kJobRanks{"strata_job_ranks", Kind::kGauge, "", Detail::kJob,
                                  "Ranks of the job."};
inline constexpr Family kJobLoss{"strata_job_loss", Kind::kGauge, "", Detail::kJob,
                                 "Mean loss of the newest window. It may be NaN."};
inline constexpr Family kJobAccuracy{
    "strata_job_test_accuracy_ratio", Kind::kGauge, "ratio", Detail::kJob,
    "Newest accuracy on the test samples, 0 to 1. Absent: none was measured."};
inline constexpr Family kJobEta{"strata_job_eta_seconds", Kind::kGauge, "seconds", Detail::kJob,
                                "Time until the job is likely to end. Absent: not known."};
inline constexpr Family kJobEpoch{"strata_job_epoch", Kind::kGauge, "", Detail::kJob,
                                  "Epochs of the training data that are done, with fractions."};
inline constexpr Family kJobStepBytes{"strata_job_step_bytes", Kind::kGauge, "bytes", Detail::kJob,
                                      "Bytes that a step sends between hosts, both ways."};
inline constexpr Family kJobWaiting{
    "strata_job_waiting_ratio", Kind::kGauge, "ratio", Detail::kJob,
    "Share of the ranks' time in which they waited, in the newest window."};
inline constexpr Family kJobHidden{
    "strata_job_hidden_ratio", Kind::kGauge, "ratio", Detail::kJob,
    "Share of the exchange's time in which no rank waited, in the newest window."};
inline constexpr Family kJobLearningRate{"strata_job_learning_rate", Kind::kGauge, "", Detail::kJob,
                                         "Learning rate of the newest window."};
inline constexpr Family kJobStaleness{
    "strata_job_staleness_pushes", Kind::kGauge, "", Detail::kJob,
    "Pushes of the newest window by staleness in clocks; the last one is that or more."};
inline constexpr Family kJobCheckpoints{"strata_job_checkpoints", Kind::kCounter, "", Detail::kJob,
                                        "Checkpoints that became complete or failed."};
inline constexpr Family kJobCheckpointAge{
    "strata_job_checkpoint_age_seconds", Kind::kGauge, "seconds", Detail::kJob,
    "Age of the newest complete checkpoint, up to the job's end. Absent: there is none."};
inline constexpr Family kJobRestarts{"strata_job_restarts", Kind::kCounter, "", Detail::kJob,
                                     "How often the job failed and went on by itself."};
inline constexpr Family kJobReplacements{"strata_job_replacements", Kind::kCounter, "",
                                         Detail::kJob, "Nodes that died and were begun again."};

// Daemons.
inline constexpr Family kDaemonUp{"strata_daemon_up", Kind::kGauge, "", Detail::kDaemon,
                                  "Whether the daemon is alive, 1 or 0."};
inline constexpr Family kDaemonHeartbeat{"strata_daemon_heartbeat_age_seconds", Kind::kGauge,
                                         "seconds", Detail::kDaemon,
                                         "Time since the daemon's last heartbeat."};
inline constexpr Family kDaemonDraining{
    "strata_daemon_draining", Kind::kGauge, "", Detail::kDaemon,
    "Whether the daemon is being taken out of service, 1 or 0."};
inline constexpr Family kDaemonSlots{"strata_daemon_slots", Kind::kGauge, "", Detail::kDaemon,
                                     "Ranks that a worker takes."};
inline constexpr Family kDaemonSlotsUsed{"strata_daemon_slots_used", Kind::kGauge, "",
                                         Detail::kDaemon, "Ranks that a worker has."};
inline constexpr Family kDaemonGpuSlots{"strata_daemon_gpu_slots", Kind::kGauge, "",
                                        Detail::kDaemon,
                                        "Ranks that may compute on a worker's GPUs at once."};
inline constexpr Family kDaemonGpuSlotsUsed{"strata_daemon_gpu_slots_used", Kind::kGauge, "",
                                            Detail::kDaemon,
                                            "Ranks that compute on a worker's GPUs."};
inline constexpr Family kDaemonUsed{"strata_daemon_resource_used", Kind::kGauge, "",
                                    Detail::kResource,
                                    "What a daemon uses of something that it has a limit for."};
inline constexpr Family kDaemonLimit{"strata_daemon_resource_limit", Kind::kGauge, "",
                                     Detail::kResource, "The daemon's limit for it. Absent: none."};
inline constexpr Family kRefusals{
    "strata_refusals", Kind::kCounter, "", Detail::kResource,
    "What a daemon or the coordinator refused of its peers, by cause."};
// A family of its own, so that no alarm on the other one fires.
inline constexpr Family kExpectedRefusals{
    "strata_expected_refusals", Kind::kCounter, "", Detail::kResource,
    "What was refused because of something planned, such as a drain: no reason for an alarm."};

// A job's nodes, shards and ranks.
inline constexpr Family kNodeMemory{"strata_node_memory_bytes", Kind::kGauge, "bytes",
                                    Detail::kNode, "Memory of the job on this node."};
inline constexpr Family kNodeMemoryLimit{
    "strata_node_memory_limit_bytes", Kind::kGauge, "bytes", Detail::kNode,
    "What the job's memory on this node is bounded by, from the model and the window."};
inline constexpr Family kNodeGpuMemory{"strata_node_gpu_memory_bytes", Kind::kGauge, "bytes",
                                       Detail::kNode, "Memory of the job on this node's GPUs."};
inline constexpr Family kNodeGpuMemoryLimit{"strata_node_gpu_memory_limit_bytes", Kind::kGauge,
                                            "bytes", Detail::kNode,
                                            "What the job's memory on GPUs is bounded by."};
inline constexpr Family kShardPushes{"strata_shard_pushes", Kind::kCounter, "", Detail::kShard,
                                     "Pushes of chunks that the shard took from nodes."};
inline constexpr Family kShardAnswers{"strata_shard_answers", Kind::kCounter, "", Detail::kShard,
                                      "Answers with weights that the shard sent."};
inline constexpr Family kShardDuplicates{"strata_shard_duplicates", Kind::kCounter, "",
                                         Detail::kShard,
                                         "Pushes that came again and were not counted twice."};
inline constexpr Family kShardRefused{"strata_shard_refused", Kind::kCounter, "", Detail::kShard,
                                      "Pushes that the shard refused."};
inline constexpr Family kShardReceived{"strata_shard_received_bytes", Kind::kCounter, "bytes",
                                       Detail::kShard, "Bytes that the shard received."};
inline constexpr Family kShardSent{"strata_shard_sent_bytes", Kind::kCounter, "bytes",
                                   Detail::kShard, "Bytes that the shard sent."};
inline constexpr Family kShardMemory{"strata_shard_memory_bytes", Kind::kGauge, "bytes",
                                     Detail::kShard, "Memory of the job on this shard."};
inline constexpr Family kShardMemoryLimit{
    "strata_shard_memory_limit_bytes", Kind::kGauge, "bytes", Detail::kShard,
    "What the job's memory on this shard is bounded by, from the model and the window."};
inline constexpr Family kRankWaiting{"strata_rank_waiting_ratio", Kind::kGauge, "ratio",
                                     Detail::kRank,
                                     "Share of its time in which the rank waited, newest window."};
inline constexpr Family kRankSamplesPerSecond{"strata_rank_samples_per_second", Kind::kGauge, "",
                                              Detail::kRank,
                                              "Samples per second of the rank, newest window."};

}  // namespace strata::cli::metrics

#endif  // STRATA_CLI_WEB_FAMILIES_H_
