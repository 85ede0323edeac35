#ifndef STRATA_CLI_RENDER_JOB_COURSE_H_
#define STRATA_CLI_RENDER_JOB_COURSE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "cli/render/cluster_scene.h"
#include "proto/control.pb.h"

namespace strata::cli {

// A job's training as followers see it: of bounded size, whatever its length. Pure.
class JobCourse {
 public:
  // `from_step`: the job's step when first seen.
  explicit JobCourse(uint64_t from_step) : from_step_(from_step) {}

  // Windows come in order. Repeated ones, as after a restart of the coordinator, change nothing.
  void Add(const proto::MetricsRecord& record);
  void Add(const proto::RankReport& report);
  // The job continues from this step: later points will come again.
  void GoBackTo(uint64_t step);

  const std::vector<CoursePoint>& points() const { return points_; }
  const std::map<uint32_t, std::vector<RankWindow>>& ranks() const { return ranks_; }
  uint64_t from_step() const { return from_step_; }

 private:
  void AddMeasurement(const proto::MetricsRecord& record);
  void Thin();

  uint64_t from_step_;
  uint64_t shown_step_ = 0;
  std::vector<CoursePoint> points_;
  size_t stride_ = 1;   // windows per point
  size_t in_last_ = 0;  // windows in the last point so far
  std::map<uint32_t, std::vector<RankWindow>> ranks_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_JOB_COURSE_H_
