#ifndef STRATA_COMPARE_CAMPAIGN_CAMPAIGN_FOLDER_H_
#define STRATA_COMPARE_CAMPAIGN_CAMPAIGN_FOLDER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "compare/campaign/campaign.pb.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::compare {

// Returns why none of these runs, as the metric sees them, is of use: the first one's failure.
// Empty: one is. That a run has diverged is a result, too.
std::string WhyNoneIsOfUse(const std::vector<proto::RunRecord>& runs);

// The folder of a comparison:
//   DIR/campaign.json          the campaign, as proto JSON
//   DIR/runs/MODE-seedN.json   a RunRecord each, as proto JSON; missing: not made yet
//   DIR/interrupted/           records of unfinished runs with checkpoints, likewise
//   DIR/jobs/                  output of jobs and daemons
//   DIR/checkpoints/           checkpoints of a sweep's runs, until no run continues from them
//
// The directory is claimed, by flock on DIR/.lock, until this object is destroyed.
//
// Threads: one.
class CampaignFolder {
 public:
  // Creates the directory if necessary. It may hold an earlier part of the requested campaign, to
  // which more modes and more seeds are added. Errors: InvalidArgument (the directory holds another
  // campaign, with the first difference; or something else; a damaged file, by name), Unavailable
  // (another process has claimed it), those of the file system, naming the file.
  static absl::StatusOr<std::unique_ptr<CampaignFolder>> Open(const std::string& dir,
                                                              const proto::Campaign& asked);

  // All modes and seeds ever requested of this directory.
  const proto::Campaign& campaign() const { return campaign_; }
  // Marks the directory as this campaign's. Errors name the file.
  absl::Status Begin();

  // Returns the run's record if it has been made; a run that failed other than by diverging has
  // none. Errors: InvalidArgument naming the file: it is damaged or belongs to another job.
  absl::StatusOr<std::optional<proto::RunRecord>> Load(const RunPlan& plan) const;
  // Returns how many of these plans have been run. Errors: as of Load.
  absl::StatusOr<size_t> CountFinished(const std::vector<RunPlan>& plans) const;
  // Errors name the file.
  absl::Status Save(const proto::RunRecord& record);

  // Returns the record of an unfinished run that can be continued: see RunChain::earlier. Null:
  // there is no usable one.
  std::shared_ptr<const proto::RunRecord> LoadInterrupted(const RunPlan& plan) const;
  // Errors name the file. Save forgets it.
  absl::Status SaveInterrupted(const proto::RunRecord& record);

  const std::string& dir() const { return dir_; }
  std::string jobs_dir() const { return dir_ + "/jobs"; }
  std::string checkpoints_dir() const { return dir_ + "/checkpoints"; }

  // Deletes the record's checkpoint folder, if that is in checkpoints_dir(). Errors name the
  // folder; a missing one is fine.
  absl::Status DeleteCheckpoints(const proto::RunRecord& record);
  // Deletes all of them.
  absl::Status DeleteAllCheckpoints();

 private:
  CampaignFolder(std::string dir, UniqueFd claim, proto::Campaign campaign)
      : dir_(std::move(dir)), claim_(std::move(claim)), campaign_(std::move(campaign)) {}

  std::string FileOf(const char* room, const std::string& mode, uint64_t seed) const;

  const std::string dir_;
  const UniqueFd claim_;
  const proto::Campaign campaign_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_CAMPAIGN_FOLDER_H_
