#ifndef STRATA_CLI_WEB_METRICS_JOB_FAMILIES_H_
#define STRATA_CLI_WEB_METRICS_JOB_FAMILIES_H_

#include "cli/web/metrics/families.h"

// The families of a job's nodes, shards and ranks.
namespace strata::cli::metrics {

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

#endif  // STRATA_CLI_WEB_METRICS_JOB_FAMILIES_H_
