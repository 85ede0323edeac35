#ifndef STRATA_SERVER_COORDINATOR_SERVICE_LOGS_SERVICE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_LOGS_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "common/os/limits.h"
#include "proto/logs.grpc.pb.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/jobs/log_readings.h"
#include "server/coordinator/service/admission.h"
#include "server/coordinator/service/doorkeeper.h"

namespace strata::server {

// The gRPC service for logs: one thread per reader, two per worker that offers to read.
class LogsService final : public proto::Logs::Service {
 public:
  // Returns what the core knows of a job, for a guest who may read its logs now. Called on any
  // thread. Errors: those of Doorkeeper::MayNow; Unavailable: the coordinator stops.
  using Look = std::function<absl::Status(const Guest& guest, JobId job, LogScene* scene)>;

  // `call_gate`: shared with all calls. The pointers outlive the service.
  LogsService(const Access* access, Doorkeeper* doorkeeper, Gate* call_gate,
              const CoordinatorLimits& limits, Look look)
      : access_(access),
        doorkeeper_(doorkeeper),
        look_(std::move(look)),
        offer_gate_("workers' streams of logs", "--sessions", limits.sessions_max),
        call_gate_(call_gate) {
    MarkMethodStreamed(/*Read=*/1, HandlerOf(this, &LogsService::StreamedRead));
  }

  // Ends all streams, also later ones, so that the gRPC server can shut down.
  void End();

  grpc::Status Offer(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<proto::LogWanted, proto::LogPart>* stream) override;

 private:
  grpc::Status StreamedRead(grpc::ServerContext* context,
                            OneRequestStream<proto::ReadLogs, proto::LogLines>* stream);
  using WantedQueue = MessageQueue<proto::LogWanted>;
  struct Stream {
    std::string worker;
    std::shared_ptr<WantedQueue> queue;
  };

  // Errors: PermissionDenied: it is another worker's name; Unavailable: End was called.
  absl::Status Open(uint64_t id, const Guest& guest, const Stream& stream);
  // Writes requests to the stream's worker until its queue ends or it is not a member any more.
  void Write(const Guest& guest, WantedQueue* queue,
             grpc::ServerReaderWriter<proto::LogWanted, proto::LogPart>* stream);
  // `job`: its status when the reading began.
  grpc::Status Show(grpc::ServerContext* context, const Guest& guest,
                    const proto::ReadLogs& request, const proto::JobStatus& job, uint64_t reading,
                    OneRequestStream<proto::ReadLogs, proto::LogLines>* stream);
  // Passes the core's outgoing messages to the streams.
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Access* const access_;
  Doorkeeper* const doorkeeper_;
  const Look look_;
  Gate offer_gate_;
  Gate* const call_gate_;

  absl::Mutex mutex_;
  LogReadings readings_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Stream> streams_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_stream_ ABSL_GUARDED_BY(mutex_) = 1;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_LOGS_SERVICE_H_
