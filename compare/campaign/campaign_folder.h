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

// Where a comparison writes:
//   DIR/campaign.json          the campaign, as proto JSON
//   DIR/runs/MODE-seedN.json   a RunRecord each, as proto JSON; not there: still to be made
//   DIR/interrupted/           what was done of runs with checkpoints that are not finished,
//   likewise DIR/jobs/                  what jobs and daemons write DIR/checkpoints/           what
//   runs of a sweep go on from, until none does any more
//
// The directory is claimed, by flock on DIR/.lock, until this object is destroyed.
//
// Threads: one.
class CampaignFolder {
 public:
  // Makes the directory if need be. What is there may be an earlier part of the campaign that is
  // asked for: more modes and more seeds add to it. Errors: InvalidArgument (the directory holds
  // another campaign, and where it differs first; or something else; a file that is damaged,
  // named), Unavailable (another process has claimed it), those of the file system, naming the
  // file.
  static absl::StatusOr<std::unique_ptr<CampaignFolder>> Open(const std::string& dir,
                                                              const proto::Campaign& asked);

  // Holds all that was ever asked for of this directory.
  const proto::Campaign& campaign() const { return campaign_; }
  // Writes down that it is this campaign's from now on. Errors name the file.
  absl::Status Begin();

  // The run's record, if it has been made; one that failed otherwise than by diverging (see
  // divergence.h) has not. Errors: InvalidArgument naming the file: it is damaged
  // or is of another job.
  absl::StatusOr<std::optional<proto::RunRecord>> Load(const RunPlan& plan) const;
  // Returns how many of these plans have been run. Errors: as of Load.
  absl::StatusOr<size_t> CountFinished(const std::vector<RunPlan>& plans) const;
  // Errors name the file.
  absl::Status Save(const proto::RunRecord& record);

  // The record of what was done of a run that is not finished, if it can go on: see
  // RunChain::earlier. Null: there is none that is of use.
  std::shared_ptr<const proto::RunRecord> LoadInterrupted(const RunPlan& plan) const;
  // Errors name the file. Save forgets it.
  absl::Status SaveInterrupted(const proto::RunRecord& record);

  const std::string& dir() const { return dir_; }
  std::string jobs_dir() const { return dir_ + "/jobs"; }
  std::string checkpoints_dir() const { return dir_ + "/checkpoints"; }

  // Deletes the folder that the record says its checkpoints are in, where that lies in
  // checkpoints_dir(). Errors name the folder; that there is none is no error.
  absl::Status DeleteCheckpoints(const proto::RunRecord& record);
  // Likewise all of them.
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
