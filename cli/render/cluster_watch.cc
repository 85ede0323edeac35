#include "cli/render/cluster_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace strata::cli {
namespace {

// One line, whatever the status says.
std::string OneLine(absl::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

ClusterWatch::ClusterWatch(Options options)
    : options_(std::move(options)),
      asks_(options_.connect()),
      follows_(options_.connect()),
      scene_(std::make_shared<const ClusterScene>(
          ClusterScene{.coordinator = options_.coordinator, .problem = "not asked yet"})),
      thread_([this] { Run(); }) {}

ClusterWatch::~ClusterWatch() {
  {
    absl::MutexLock lock(&mutex_);
    is_over_ = true;
  }
  follows_->StopFollowing();
  thread_.join();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [job, followed] : followed_) threads.push_back(std::move(followed.thread));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

void ClusterWatch::AwaitFirst(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&is_asked_), timeout);
}

std::shared_ptr<const ClusterScene> ClusterWatch::Look() {
  KeepLooking();
  absl::MutexLock lock(&mutex_);
  return scene_;
}

void ClusterWatch::KeepLooking() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (now - looked_at_ > options_.idle_after) is_wanted_ = true;
  looked_at_ = now;
}

void ClusterWatch::Run() {
  while (true) {
    const absl::Time began = absl::Now();
    const absl::Status asked = Ask();
    Show(asked.ok() ? "" : OneLine(asked.message()));
    options_.on_change();
    absl::MutexLock lock(&mutex_);
    const auto is_due = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return is_over_ || is_wanted_;
    };
    mutex_.AwaitWithDeadline(absl::Condition(&is_over_), began + options_.pause);
    const bool idle = absl::Now() - looked_at_ > options_.idle_after;
    mutex_.AwaitWithDeadline(absl::Condition(&is_due),
                             began + (idle ? options_.idle_every : options_.every));
    is_wanted_ = false;
    if (is_over_) return;
  }
}

absl::Status ClusterWatch::Ask() {
  auto nodes = asks_->ListNodes();
  if (!nodes.ok()) return nodes.status();
  auto jobs = asks_->ListJobs();
  if (!jobs.ok()) return jobs.status();
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mutex_);
  // A job that had ended before the first look has not ended just now.
  const bool is_first =
      taken_ == absl::InfinitePast() || nodes->cluster_id() != nodes_.cluster_id();
  if (is_first) ended_.clear();
  nodes_ = *std::move(nodes);
  jobs_.clear();
  for (proto::JobStatus& job : *jobs) {
    const uint32_t id = job.job_id();
    if (control::HasEnded(job.state())) {
      const absl::Time ended = absl::FromUnixMillis(job.ended_ms());
      ended_.emplace(id, is_first ? std::min(now, ended) : now);
    }
    jobs_[id] = std::move(job);
  }
  taken_ = now;
  if (is_first) ForgetCourses();
  ForgetGoneJobs();
  FollowNewJobs();
  return absl::OkStatus();
}

void ClusterWatch::Show(std::string problem) {
  absl::MutexLock lock(&mutex_);
  auto scene = std::make_shared<ClusterScene>();
  scene->taken = taken_;
  scene->coordinator = options_.coordinator;
  scene->problem = std::move(problem);
  scene->nodes = nodes_;
  scene->jobs = JobScenes();
  scene_ = std::move(scene);
  is_asked_ = true;
}

std::vector<std::shared_ptr<const JobScene>> ClusterWatch::JobScenes() {
  std::vector<std::shared_ptr<const JobScene>> scenes;
  size_t ended = 0;
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
    const auto& [id, status] = *job;
    if (control::HasEnded(status.state()) && ++ended > kEndedJobsMax) continue;
    auto scene = std::make_shared<JobScene>();
    scene->status = status;
    const auto followed = followed_.find(id);
    if (followed != followed_.end()) {
      scene->course = followed->second.course.points();
      scene->ranks = followed->second.course.ranks();
      scene->watched_from_step = followed->second.course.from_step();
    }
    const auto since = ended_.find(id);
    if (since != ended_.end()) scene->first_seen_ended = since->second;
    scenes.push_back(std::move(scene));
  }
  return scenes;
}

// Another cluster has other jobs, whatever their numbers.
void ClusterWatch::ForgetCourses() {
  for (auto& [id, followed] : followed_) {
    const auto job = jobs_.find(id);
    followed.course = JobCourse(job == jobs_.end() ? 0 : job->second.progress().step());
    followed.restarts = 0;
    followed.waits = 0;
  }
}

// Jobs that the coordinator does not know any more.
void ClusterWatch::ForgetGoneJobs() {
  std::erase_if(ended_, [&](const auto& entry) { return !jobs_.contains(entry.first); });
  for (auto it = followed_.begin(); it != followed_.end();) {
    Followed& followed = it->second;
    const bool is_gone = !followed.is_followed && !jobs_.contains(it->first);
    if (is_gone && followed.thread.joinable()) followed.thread.join();  // it is at its end
    it = is_gone ? followed_.erase(it) : std::next(it);
  }
}

void ClusterWatch::FollowNewJobs() {
  size_t threads = 0;
  for (const auto& [job, followed] : followed_) threads += followed.is_followed;
  for (const auto& [id, status] : jobs_) {
    if (is_over_ || threads >= options_.followed_max) return;
    if (control::HasEnded(status.state())) continue;
    Followed& followed = followed_.try_emplace(id, status.progress().step()).first->second;
    if (followed.is_followed) continue;
    if (followed.thread.joinable()) followed.thread.join();  // it is at its end
    followed.is_followed = true;
    followed.thread = std::thread([this, job = id] { Follow(job); });
    ++threads;
  }
}

void ClusterWatch::Follow(uint32_t job) {
  // The next answer of ListJobs tells how it ends; after a break it is followed again.
  follows_->Follow(JobId(job), [&](const proto::FollowEvent& event) { Hear(job, event); })
      .IgnoreError();
  absl::MutexLock lock(&mutex_);
  followed_.at(job).is_followed = false;
}

void ClusterWatch::Hear(uint32_t job, const proto::FollowEvent& event) {
  absl::MutexLock lock(&mutex_);
  Followed& followed = followed_.at(job);
  if (event.has_metrics()) followed.course.Add(event.metrics());
  if (event.has_report()) followed.course.Add(event.report());
  if (event.has_status() && event.status().waits_size() != followed.waits) {
    followed.waits = event.status().waits_size();
    is_wanted_ = true;
  }
  if (event.has_status() && event.status().restarts_size() > followed.restarts) {
    followed.restarts = event.status().restarts_size();
    followed.course.GoBackTo(event.status().restarts(followed.restarts - 1).step());
  }
}

}  // namespace strata::cli
