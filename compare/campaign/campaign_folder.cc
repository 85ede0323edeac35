#include "compare/campaign/campaign_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/job/job.h"
#include "common/os/atomic_file.h"
#include "compare/campaign/campaign_plan.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"

namespace strata::compare {

namespace {

constexpr char kRuns[] = "runs";
constexpr char kInterrupted[] = "interrupted";

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

constexpr size_t kFileBytesMax = size_t{64} << 20;
constexpr char kLock[] = ".lock";

std::string CampaignFile(const std::string& dir) { return dir + "/campaign.json"; }

absl::Status WriteJson(const Message& message, const std::string& path) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return absl::InternalError(absl::StrCat(path, ": ", status.ToString()));
  return WriteFileAtomically(path, text);
}

absl::Status ReadJson(const std::string& path, Message* message) {
  const absl::StatusOr<std::string> text = ReadFile(path, kFileBytesMax);
  if (!text.ok()) return text.status();
  const auto status = google::protobuf::util::JsonStringToMessage(*text, message);
  if (status.ok()) return absl::OkStatus();
  const std::string why = absl::StrReplaceAll(status.ToString(), {{"\n", " "}});
  return absl::InvalidArgumentError(absl::StrCat(path, ": is damaged: ", why));
}

// "modified: job.seed: 1 -> 2"; empty: there is none.
std::string FirstDifference(const Message& there, const Message& here) {
  std::string text;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&text);
  if (differencer.Compare(there, here)) return "";
  return text.substr(0, text.find('\n'));
}

// Returns what runs must share to be compared, with everything spelled out.
proto::Campaign Comparable(proto::Campaign campaign) {
  campaign.clear_modes();
  campaign.clear_seeds();
  campaign.clear_measured_round();
  if (campaign.has_sweep()) campaign.mutable_sweep()->Clear();
  FillDefaults(campaign.mutable_job());
  return campaign;
}

// Adds to the campaign in the folder what is asked for beyond it.
proto::Campaign Merged(proto::Campaign there, const proto::Campaign& asked) {
  for (const std::string& mode : asked.modes()) {
    if (std::find(there.modes().begin(), there.modes().end(), mode) == there.modes().end()) {
      there.add_modes(mode);
    }
  }
  there.set_seeds(std::max(there.seeds(), asked.seeds()));
  if (asked.has_sweep()) *there.mutable_sweep() = asked.sweep();
  return there;
}

absl::StatusOr<UniqueFd> Claim(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kLock);
  absl::StatusOr<UniqueFd> opened = OpenRegularFileToWrite(path, O_RDWR | O_CREAT);
  if (!opened.ok()) return opened.status();
  UniqueFd fd = *std::move(opened);
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return FileError(errno, path);
    return absl::UnavailableError(
        absl::StrCat(dir, ": another comparison or sweep writes there now"));
  }
  return fd;
}

// True if the folder holds nothing but the lock.
absl::StatusOr<bool> IsNew(const std::string& dir) {
  std::error_code error;
  for (std::filesystem::directory_iterator file(dir, error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().filename() != kLock) return false;
  }
  if (error) return FileError(error.value(), dir);
  return true;
}

absl::Status MakeDirectory(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  return error ? FileError(error.value(), dir) : absl::OkStatus();
}

absl::Status DeleteFolder(const std::string& dir) {
  std::error_code error;
  std::filesystem::remove_all(dir, error);
  return error ? FileError(error.value(), dir) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CampaignFolder>> CampaignFolder::Open(const std::string& dir,
                                                                     const proto::Campaign& asked) {
  const std::string path = CampaignFile(dir);
  std::error_code ignored;
  const bool is_campaign = std::filesystem::exists(path, ignored);
  // A stranger's directory gets no file of ours, not even the lock.
  if (!is_campaign && std::filesystem::exists(dir, ignored)) {
    const absl::StatusOr<bool> is_new = IsNew(dir);
    if (!is_new.ok()) return is_new.status();
    if (!*is_new) {
      return absl::InvalidArgumentError(absl::StrCat(
          dir, ": holds files that are not of a comparison or sweep (no campaign.json)"));
    }
  }
  if (const absl::Status status = MakeDirectory(dir); !status.ok()) return status;
  absl::StatusOr<UniqueFd> claim = Claim(dir);
  if (!claim.ok()) return claim.status();
  proto::Campaign campaign = asked;
  if (std::filesystem::exists(path, ignored)) {
    proto::Campaign there;
    if (const absl::Status status = ReadJson(path, &there); !status.ok()) return status;
    if (there.has_sweep() != asked.has_sweep()) {
      const char* const kinds[] = {"comparison", "sweep"};
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: holds a %s, not a %s", dir, kinds[there.has_sweep()], kinds[asked.has_sweep()]));
    }
    const std::string difference = FirstDifference(Comparable(there), Comparable(asked));
    if (!difference.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          dir, ": holds another campaign, the first difference (there -> here): ", difference));
    }
    campaign = Merged(std::move(there), asked);
  }
  return absl::WrapUnique(new CampaignFolder(dir, *std::move(claim), std::move(campaign)));
}

absl::Status CampaignFolder::Begin() {
  if (const absl::Status status = MakeDirectory(absl::StrCat(dir_, "/", kRuns)); !status.ok())
    return status;
  return WriteJson(campaign_, CampaignFile(dir_));
}

absl::StatusOr<std::optional<proto::RunRecord>> CampaignFolder::Load(const RunPlan& plan) const {
  const std::string path = FileOf(kRuns, plan.mode, plan.job.seed());
  proto::RunRecord record;
  const absl::Status status = ReadJson(path, &record);
  if (absl::IsNotFound(status)) return std::nullopt;
  if (!status.ok()) return status;
  const std::string difference = FirstDifference(record.job(), plan.job);
  if (record.mode() == plan.mode && difference.empty()) {
    // Any other failure (a process was killed, data is missing) says nothing about the mode.
    if (!record.failure().empty() && !record.has_diverged()) return std::nullopt;
    return record;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is of another run: ",
                   difference.empty() ? absl::StrCat("mode ", record.mode()) : difference));
}

absl::StatusOr<size_t> CampaignFolder::CountFinished(const std::vector<RunPlan>& plans) const {
  size_t count = 0;
  for (const RunPlan& plan : plans) {
    const absl::StatusOr<std::optional<proto::RunRecord>> record = Load(plan);
    if (!record.ok()) return record.status();
    if (record->has_value()) ++count;
  }
  return count;
}

std::string CampaignFolder::FileOf(const char* room, const std::string& mode, uint64_t seed) const {
  return absl::StrCat(dir_, "/", room, "/", RunName(mode, seed), ".json");
}

absl::Status CampaignFolder::Save(const proto::RunRecord& record) {
  absl::Status saved = WriteJson(record, FileOf(kRuns, record.mode(), record.seed()));
  if (!saved.ok()) return saved;
  std::error_code error;
  const std::string interrupted = FileOf(kInterrupted, record.mode(), record.seed());
  std::filesystem::remove(interrupted, error);
  return error ? FileError(error.value(), interrupted) : absl::OkStatus();
}

std::shared_ptr<const proto::RunRecord> CampaignFolder::LoadInterrupted(const RunPlan& plan) const {
  auto record = std::make_shared<proto::RunRecord>();
  // A record that cannot be used is made again.
  const absl::Status status =
      ReadJson(FileOf(kInterrupted, plan.mode, plan.job.seed()), record.get());
  const bool is_of_use = status.ok() && record->mode() == plan.mode &&
                         FirstDifference(record->job(), plan.job).empty();
  return is_of_use ? record : nullptr;
}

absl::Status CampaignFolder::SaveInterrupted(const proto::RunRecord& record) {
  absl::Status made = MakeDirectory(absl::StrCat(dir_, "/", kInterrupted));
  return made.ok() ? WriteJson(record, FileOf(kInterrupted, record.mode(), record.seed())) : made;
}

absl::Status CampaignFolder::DeleteCheckpoints(const proto::RunRecord& record) {
  const std::filesystem::path dir(record.checkpoint_dir());
  if (dir.parent_path() != checkpoints_dir() || dir.filename() == "..") return absl::OkStatus();
  return DeleteFolder(dir);
}

absl::Status CampaignFolder::DeleteAllCheckpoints() { return DeleteFolder(checkpoints_dir()); }

std::string WhyNoneIsOfUse(const std::vector<proto::RunRecord>& runs) {
  for (const proto::RunRecord& run : runs) {
    if (run.failure().empty() || run.has_diverged()) return "";
  }
  return runs.empty() ? "" : runs.front().failure();
}

}  // namespace strata::compare
