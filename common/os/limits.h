#ifndef STRATA_COMMON_OS_LIMITS_H_
#define STRATA_COMMON_OS_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace strata {

// ---- the same on every host: both ends of a connection rely on them ----

// Payload of a frame of the data path; a chunk fits into one.
inline constexpr uint64_t kFramePayloadBytesMax = 16 << 20;
// Bytes of a message to a shard on a connection without an accepted HELLO.
inline constexpr uint64_t kStrangerBytesMax = 64 << 10;
// A connection to a shard is closed if no HELLO was accepted on it within this time.
inline constexpr absl::Duration kStrangerTimeout = absl::Seconds(10);
inline constexpr uint32_t kChunkElementsMax = kFramePayloadBytesMax / sizeof(float);
// Chunks of a job: a placement of this many still fits well into a message.
inline constexpr uint64_t kChunksMax = 1 << 20;
// Buckets of a job's rows, and tables of a job.
inline constexpr uint32_t kBucketsMax = 4096;
inline constexpr uint32_t kTablesMax = 1024;
// The memory in which a rank and its node hand each other rows: ids, and gradients or weights. A
// call with more goes in parts.
inline constexpr uint64_t kRowSlotBytes = 4 << 20;
// An object of rows in a checkpoint ends with the range of rows that fills it.
inline constexpr uint64_t kRowPieceBytes = 8 << 20;
// A gRPC message, and a message between processes of one host.
inline constexpr uint32_t kControlMessageBytesMax = 64 << 20;
// A job's record (job, view, placement, layout), which must fit into a message.
inline constexpr uint64_t kJobRecordBytesMax = 32 << 20;
// Shards of one server, and shards of one job; each node of the job is connected to all of them.
inline constexpr uint32_t kShardsPerServerMax = 64;
inline constexpr uint32_t kShardsPerJobMax = 256;
inline constexpr uint32_t kSlotsMax = 1024;
// Connections of a job's node to one peer.
inline constexpr uint32_t kConnectionsPerPeerMax = 16;
// The same to all shards of the job in total.
inline constexpr uint32_t kConnectionsPerNodeMax = kShardsPerJobMax;

// Bytes of a daemon's name, and of the host name that it gives to peers.
inline constexpr size_t kNameBytesMax = 255;
// Jobs that a daemon may hold when it registers.
inline constexpr uint32_t kJobsHeldMax = 65536;
// Resources, and causes of refusals, in a heartbeat.
inline constexpr int kHeartbeatLinesMax = 64;
// Addresses that a worker tries at a time: a socket each.
inline constexpr uint32_t kProbesMax = 32;

// ---- queues between threads and processes: data for a peer that does not read ----

inline constexpr size_t kQueuedBytesMax = 256 << 20;
inline constexpr size_t kQueuedMessagesMax = 65536;
// Messages of one daemon that wait for the coordinator's loop; beyond that it does not read from
// the daemon.
inline constexpr size_t kInHandPerSessionMax = 32;

// ---- what jobs leave behind ----

// Logs that the ended jobs of one user with keys leave below a worker's folder of runs.
inline constexpr uint64_t kUserLogBytesMax = uint64_t{32} << 30;

// ---- options of each daemon; errors of Validate: InvalidArgument naming the option ----

struct CoordinatorLimits {
  uint32_t sessions_max = 1024;  // daemons that are connected at once
  uint32_t calls_max = 256;      // other calls at once: followers, submits, lists

  absl::Status Validate() const;
};

struct ServerLimits {
  uint32_t connections_max = 1024;  // per shard: one for each node of each job
  uint64_t memory_bytes = 0;        // for all jobs by formula; 0: half of the machine's memory

  absl::Status Validate() const;
};

struct WorkerLimits {
  uint64_t memory_bytes = 0;  // as ServerLimits

  absl::Status Validate() const;
};

// Events of a job's trace; further ones are dropped and counted.

// Events that one process (of a server: one shard) has recorded and not sent yet.
inline constexpr size_t kTraceEventsWaitingMax = 16384;
// Memory of these events in a traced job.
inline constexpr size_t kTraceLogBytes = kTraceEventsWaitingMax * 32;
// Events that it records of one job in total, so that no trace fills a queue to a coordinator that
// is away.
inline constexpr uint64_t kTraceEventsPerProcessMax = 262144;
// Events in one message: it fits into a socket's free buffer.
inline constexpr size_t kTraceEventsPerBatchMax = 1024;
// Events that wait in a daemon for the coordinator, including other messages.
inline constexpr size_t kTraceQueuedBytesMax = 64 << 20;
inline constexpr size_t kTraceQueuedMessagesMax = 32768;
// Bytes of a process's name, which may include its daemon's.
inline constexpr size_t kTraceNameBytesMax = 320;
// All traces held by the coordinator; those of jobs that ended first are dropped to make room.
inline constexpr size_t kTraceBytesMax = 32 << 20;

}  // namespace strata

#endif  // STRATA_COMMON_OS_LIMITS_H_
