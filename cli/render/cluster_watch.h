#ifndef STRATA_CLI_RENDER_CLUSTER_WATCH_H_
#define STRATA_CLI_RENDER_CLUSTER_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/render/cluster_scene.h"
#include "cli/render/job_course.h"
#include "common/control/coordinator_client.h"

namespace strata::cli {

// Maintains a picture of a cluster by polling its coordinator, as a read-only client. Jobs' courses
// before the watch began are unknown.
//
// Threads: any.
class ClusterWatch {
 public:
  struct Options {
    std::string coordinator;  // for display
    // Makes a client whose Follow also returns each rank's reports.
    std::function<std::unique_ptr<control::CoordinatorClient>()> connect;
    absl::Duration every = absl::Seconds(1);
    // Pause between polls, even if a job begins or ends to wait for somebody meanwhile.
    absl::Duration pause = absl::Milliseconds(250);
    // The interval while nobody looks, when only courses are updated.
    absl::Duration idle_every = absl::Seconds(5);
    absl::Duration idle_after = absl::Seconds(10);
    // Jobs whose course is followed at once, each by a thread; of others only the status is known.
    size_t followed_max = 64;
    // Called after each new scene, from a thread of the watch.
    std::function<void()> on_change = [] {};
  };

  explicit ClusterWatch(Options options);
  ~ClusterWatch();
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  // Waits for the coordinator's first answer or failure; at most for `timeout`.
  void AwaitFirst(absl::Duration timeout);
  // Returns the newest scene; the caller counts as a viewer. Never null.
  std::shared_ptr<const ClusterScene> Look();
  // Marks that a viewer keeps looking, and will be notified by on_change.
  void KeepLooking();

 private:
  struct Followed {
    explicit Followed(uint64_t from_step) : course(from_step) {}
    JobCourse course;
    int restarts = 0;          // that the course knows of
    int waits = 0;             // of its newest status
    bool is_followed = false;  // by `thread`
    std::thread thread;
  };

  void Run();
  absl::Status Ask();
  void Show(std::string problem);
  void FollowNewJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(uint32_t job);
  void Hear(uint32_t job, const proto::FollowEvent& event);
  void ForgetCourses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetGoneJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns jobs that run, wait or have ended recently.
  std::vector<std::shared_ptr<const JobScene>> JobScenes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::unique_ptr<control::CoordinatorClient> asks_;
  const std::unique_ptr<control::CoordinatorClient> follows_;

  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;  // a new viewer is there
  absl::Time looked_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::shared_ptr<const ClusterScene> scene_ ABSL_GUARDED_BY(mutex_);
  proto::ListNodesReply nodes_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, proto::JobStatus> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Followed> followed_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, absl::Time> ended_ ABSL_GUARDED_BY(mutex_);
  absl::Time taken_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::thread thread_;  // last member: it uses all others
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_CLUSTER_WATCH_H_
