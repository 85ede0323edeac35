#ifndef STRATA_SERVER_COORDINATOR_SERVICE_JOB_STORE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_JOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/unique_fd.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

// The coordinator's state on disk: DIR/coordinator.sqlite, with a write-ahead log (WAL) and synced
// at every change, so that what Save has confirmed survives a crash of process and host. DIR/lock
// is held while the store is open: one coordinator per directory.
//
// Threads: one at a time. Errors name the file: Unavailable (another coordinator has the
// directory), DataLoss (not a database, or damaged), FailedPrecondition (written by a newer
// version), Internal (disk full and the like).
class JobStore {
 public:
  static constexpr char kFile[] = "coordinator.sqlite";  // in the directory
  // The schema version, also of a state in etcd. It is raised with each change of the tables or
  // their content that an older coordinator would miss, so that it refuses the state. 2: jobs have
  // the protocol version that they stay on, and daemons may be out of service.
  static constexpr int kSchemaVersion = 2;
  static constexpr int kOldestSchemaVersion = 1;  // the oldest that is upgraded

  virtual ~JobStore() = default;
  // Creates directory and database if they do not exist.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& directory);

  // A random id, created with the database.
  virtual const std::string& cluster_id() const = 0;
  // An id above every id that was ever saved.
  virtual uint32_t next_job_id() const = 0;
  // Returns all jobs by id.
  virtual absl::StatusOr<std::vector<proto::StoredJob>> Load() = 0;

  virtual absl::Status Save(const proto::StoredJob& job) = 0;
  virtual absl::Status Remove(JobId job) = 0;

  // Returns the newest registrations of daemons, up to SeenRegistrations::kMax, the oldest first.
  virtual absl::StatusOr<std::vector<SeenRegistrations::Entry>> LoadSeen() = 0;
  // Saves them in one transaction.
  virtual absl::Status SaveSeen(const std::vector<SeenRegistrations::Entry>& seen) = 0;

  // The names of the daemons that are out of service; saving replaces all previous names.
  virtual absl::StatusOr<std::vector<std::string>> LoadDraining() = 0;
  virtual absl::Status SaveDraining(const std::vector<std::string>& daemons) = 0;
};

// Creates a coordinator's state directory if needed, and takes DIR/lock, which is held until the
// descriptor is closed: one coordinator per directory. Errors name it: Unavailable (another one has
// it), those of MakeOwnFolders, Internal.
absl::StatusOr<UniqueFd> LockState(const std::string& directory);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_JOB_STORE_H_
