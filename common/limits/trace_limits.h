#ifndef STRATA_COMMON_LIMITS_TRACE_LIMITS_H_
#define STRATA_COMMON_LIMITS_TRACE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace strata {

// Events of a job's trace; those beyond are left out and counted.

// Events that one process (of a server: one shard) has recorded and not handed on yet.
inline constexpr size_t kTraceEventsWaitingMax = 16384;
// What these take, where the job is traced.
inline constexpr size_t kTraceLogBytes = kTraceEventsWaitingMax * 32;
// Events that it records of one job in all, so that no trace fills a queue to a coordinator that is
// away.
inline constexpr uint64_t kTraceEventsPerProcessMax = 262144;
// Events in one message: it fits into a socket's free buffer.
inline constexpr size_t kTraceEventsPerBatchMax = 1024;
// Events that wait in a daemon for the coordinator, with what else does.
inline constexpr size_t kTraceQueuedBytesMax = 64 << 20;
inline constexpr size_t kTraceQueuedMessagesMax = 32768;
// Bytes of a process's name, which may hold its daemon's.
inline constexpr size_t kTraceNameBytesMax = 320;
// All traces that the coordinator holds; those of jobs that ended first make room.
inline constexpr size_t kTraceBytesMax = 32 << 20;

}  // namespace strata

#endif  // STRATA_COMMON_LIMITS_TRACE_LIMITS_H_
