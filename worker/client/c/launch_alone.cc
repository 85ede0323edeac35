#include "worker/client/c/launch_alone.h"

#include <utility>

#include "common/job/job.h"

namespace strata::client {

absl::StatusOr<proto::Launch> LaunchAlone(const char* text) {
  absl::StatusOr<proto::Job> job = ParseJob(text, "job");
  if (!job.ok()) return job.status();
  if (job->name().empty()) job->set_name("alone");
  if (!job->has_program()) job->mutable_program()->set_path("alone");
  job->set_ranks(1);
  job->set_exchange(proto::Job::NONE);
  FillDefaults(&*job);
  if (absl::Status valid = ValidateJob(*job); !valid.ok()) return valid;
  proto::Launch launch;
  *launch.mutable_record()->mutable_job() = *std::move(job);
  launch.set_local_ranks(1);
  launch.set_channel_fd(-1);
  return launch;
}

}  // namespace strata::client
