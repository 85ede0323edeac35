#include "tests/sim/cluster/stored_job.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/part_writer.h"
#include "common/image/chunk_image.h"
#include "common/image/image_file.h"
#include "common/job/consistency.h"
#include "common/testing/faulty_store.h"
#include "common/transport/sim/random.h"
#include "proto/record.pb.h"
#include "server/coordinator/jobs/checkpoint_ledger.h"
#include "server/coordinator/jobs/checkpoint_work.h"
#include "server/coordinator/jobs/go_on.h"
#include "server/daemon/job_checkpoints.h"
#include "tests/sim/cluster/job_run.h"
#include "worker/aggregator/node_checkpoints.h"

namespace strata::sim {

// An undisturbed run of a job, to compare others with. Its functions return "", or "INVARIANT: what
// is wrong".
class Undisturbed {
 public:
  // `one` outlives it.
  explicit Undisturbed(const JobCase& one) : case_(one) {}

  std::string Run(const proto::JobRecord& record, uint64_t seed);
  // Number of its events.
  int events() const { return events_; }

  // Checks that these images, from which another run resumes, have the bits of their clock.
  std::string CheckImages(const std::vector<ChunkImage>& images) const;
  // Checks that another run has ended like this one.
  std::string CheckEnd(const JobRun& run) const;

 private:
  void KeepImages(const PartWriter::Part& part);

  const JobCase& case_;
  std::vector<std::vector<float>> weights_;                    // of nodes
  std::map<uint64_t, std::map<uint64_t, ChunkImage>> images_;  // by clock and range
  int events_ = 0;
};

// Returns the bytes of a file.
std::string BytesOfFile(const ImageFile& file);

// Compares a disk of checkpoints with the cut images, byte for byte. Its functions return "", or
// "INVARIANT: what is wrong".
class StoreChecker {
 public:
  // `disk` outlives it.
  explicit StoreChecker(const FaultyDisk& disk) : disk_(disk) {}

  // An object that a writer must put, with the bytes of its images when they were cut.
  void OnCut(const std::string& object, std::string content);
  // Holds at any time: everything that a manifest names exists, equals what was cut, and is
  // complete; a kept checkpoint has not been deleted without a newer one.
  std::string Check();
  // A checkpoint has been kept, and at most `keep` of them remain, if all others could be deleted.
  std::string CheckKept(uint64_t clock, uint32_t keep, bool others_deleted);
  // The status of a server or node that could not load names a damaged object.
  std::string CheckNamed(const absl::Status& refused) const;
  // Damaged manifests newer than that of `clock` are named among the skipped ones. `damaged`: those
  // damaged before.
  static std::string CheckPassedOver(const std::set<std::string>& damaged, uint64_t clock,
                                     const std::vector<std::string>& passed_over);

  // The clock of the newest complete checkpoint, if there is one.
  std::optional<uint64_t> Newest() const;

 private:
  bool IsWhole(const Manifest& manifest) const;
  // By clock: readable manifests.
  std::map<uint64_t, Manifest> Manifests() const;
  // Returns why it is incomplete; empty: it is complete, except for deliberate damage.
  std::string FaultIn(const Manifest& manifest) const;
  bool IsDamaged(const Manifest& manifest) const;

  const FaultyDisk& disk_;
  std::map<std::string, std::string> cut_;  // by object
  std::set<uint64_t> kept_;                 // clocks of those that were complete at the last check
};

namespace {

using transport::SimRandom;

constexpr int kEventsMax = 1'000'000;
constexpr uint32_t kFaultyAttemptsMax = 8;
constexpr int kTriesMax = 200;  // for the start of an attempt; each try takes one of the requested
                                // failures
constexpr char kDir[] = "/checkpoints";
constexpr absl::Duration kLatencyMax = absl::Milliseconds(1);

// One seed's job, and everything that writes its checkpoints.
class StoredJob {
 public:
  explicit StoredJob(uint64_t seed)
      : seed_(seed),
        random_(seed),
        case_(JobCases()[seed % JobCases().size()]),
        disk_(seed, kDir),
        elsewhere_(seed, kDir),
        checker_(disk_),
        undisturbed_(case_),
        every_(random_.Below(2) == 0 ? 2 : 4),
        keep_(static_cast<uint32_t>(random_.Between(1, 3))),
        nodes_(DrawNodes()),
        faulty_(static_cast<uint32_t>(random_.Between(1, kFaultyAttemptsMax))) {
    outcome_.job = case_.name;
  }

  StoredOutcome Run() {
    Require(undisturbed_.Run(MakeJobRecord(case_, nodes_, DrawShards(), every_, keep_), seed_));
    while (!has_finished_ && outcome_.violation.empty()) {
      ++outcome_.attempts;
      if (outcome_.attempts > faulty_) disk_.Calm();
      if (Begin()) Train();
      if (outcome_.attempts > faulty_ && !has_finished_) Fail("ends once faults stop: it has not");
    }
    return outcome_;
  }

 private:
  // What one process must write, in order.
  struct Writer {
    proto::JobRecord record;
    FaultyDisk* disk = nullptr;
    std::deque<PartWriter::Part> parts;
    bool is_busy = false;
  };

  void Fail(const std::string& violation) {
    if (outcome_.violation.empty()) outcome_.violation = violation;
  }
  void Require(const std::string& violation) {
    if (!violation.empty()) Fail(violation);
  }
  // Returns true with a probability of one in this many, while there are faults.
  bool Chance(uint32_t one_in) {
    return outcome_.attempts <= faulty_ && random_.Below(one_in) == 0;
  }
  uint32_t DrawNodes() { return 1u << random_.Below(3); }
  uint32_t DrawShards() { return static_cast<uint32_t>(random_.Between(1, 3)); }

  // ---- The checkpoint from which the job resumes.

  // Returns false if the host has crashed, or something is wrong.
  bool Begin() {
    disk_.Restart();
    elsewhere_.Restart();
    Require(checker_.Check());
    const std::optional<uint64_t> newest = checker_.Newest();
    uint64_t below = 0;
    if (Chance(6)) disk_.CrashAfter(static_cast<uint32_t>(random_.Below(4)));
    if (Chance(3)) FailCalls();
    for (int tries = 0; tries < kTriesMax && outcome_.violation.empty(); ++tries) {
      absl::Status status = TryToBegin(below);
      if (disk_.crashed()) return false;
      if (status.ok()) {
        const std::optional<uint64_t> from =
            record_.has_resume() ? std::optional(record_.resume().clock()) : std::nullopt;
        if (from == newest) return true;
        Fail(absl::StrFormat("goes on from the newest whole one: from clock %d, not from %d",
                             from.value_or(0), newest.value_or(0)));
      } else if (record_.has_resume() && IsDamage(status)) {
        Require(checker_.CheckNamed(status));
        ++outcome_.refused;
        below = record_.resume().clock();
      } else if (!absl::IsUnavailable(status)) {
        Fail(absl::StrCat("goes on from the newest whole one: ", status.message()));
      }
    }
    Fail("ends once faults stop: the job cannot begin");
    return false;
  }

  absl::Status TryToBegin(uint64_t below) {
    const uint32_t nodes = case_.keeps_nodes ? nodes_ : DrawNodes();
    record_ = MakeJobRecord(case_, nodes, DrawShards(), every_, keep_);
    record_.mutable_job()->mutable_checkpoint()->set_dir(kDir);
    record_.set_attempt(++attempt_);
    record_.set_token(attempt_);
    const std::set<std::string> damaged = disk_.Damaged();
    const absl::StatusOr<server::CheckpointFound> found =
        server::FindCheckpoint({.job = record_.job_id(),
                                .cluster = record_.cluster(),
                                .own_dir = kDir,
                                .resume_dir = kDir,
                                .below = below,
                                .or_begin = true},
                               OpenerOf(&disk_));
    from_ = {};
    if (absl::IsNotFound(found.status())) return absl::OkStatus();
    if (!found.ok()) return found.status();
    Require(StoreChecker::CheckPassedOver(damaged, found->manifest.clock, found->passed_over));
    absl::Status same = server::CheckContinues(record_.job(), found->record);
    if (same.ok()) same = server::CheckContinues(record_, found->record);
    if (!same.ok()) return same;
    absl::StatusOr<proto::Resume> resume = server::MakeResume(kDir, found->manifest, found->record);
    if (!resume.ok()) return absl::InternalError(resume.status().message());
    *record_.mutable_resume() = *std::move(resume);
    if (nodes != static_cast<uint32_t>(found->record.view().nodes_size())) ++outcome_.moved;
    return Load();
  }

  absl::Status Load() {
    const std::unique_ptr<Store> store = disk_.Open();
    for (int s = 0; s < record_.placement().shard_endpoints_size(); ++s) {
      std::vector<ChunkImage>& images = from_.images.emplace_back();
      const server::TakeImages take = [&](auto more) {
        images.insert(images.end(), more.begin(), more.end());
        return absl::OkStatus();
      };
      const server::TakeRows no_rows = [](const RowsImage&) {
        return absl::InternalError("the job has no rows");
      };
      absl::Status loaded = server::LoadCheckpoint(record_, {ShardId(s)}, *store, take, no_rows);
      if (!loaded.ok()) return loaded;
      Require(undisturbed_.CheckImages(images));
    }
    for (int n = 0; n < record_.view().nodes_size(); ++n) {
      auto node = worker::LoadNodeResume(record_, n, OpenerOf(&disk_));
      if (!node.ok()) return node.status();
      from_.nodes.push_back(*std::move(node));
    }
    return absl::OkStatus();
  }

  // ---- One attempt.

  void Train() {
    ledger_ = server::CheckpointLedger(record_);
    run_ = std::make_unique<JobRun>(case_, record_, seed_ + attempt_ * 1000, from_);
    if (record_.has_resume()) ++outcome_.resumed;
    DrawFaults();
    for (auto& [name, writer] : stragglers_) Schedule(&writer);
    int events = 0;
    while (!IsOver() && outcome_.violation.empty() && events < kEventsMax) {
      if (events == kill_at_) return Die(random_.Below(2) == 0);
      Strike(events++);
      if (!run_->RunOne()) break;
      for (PartWriter::Part& part : run_->TakeParts()) Queue(std::move(part));
      if (disk_.crashed()) return Die(/*all=*/keeping_crashed_ || random_.Below(2) == 0);
      if (run_->status().ok()) continue;
      CheckData();
      Fail(absl::StrCat("goes on: ", run_->status().message()));
    }
    CheckData();
    if (outcome_.violation.empty()) CheckEnd();
    LeaveBehind(/*written=*/false);
  }
  bool IsOver() const {
    return run_->is_over() && !keep_pending_ &&
           std::all_of(writers_.begin(), writers_.end(),
                       [](const auto& writer) { return writer.second.parts.empty(); });
  }

  void DrawFaults() {
    const uint64_t first = record_.has_resume() ? record_.resume().step() : 0;
    const uint64_t events = undisturbed_.events() * (kJobSteps - first) / kJobSteps + 1;
    const auto draw = [&](uint32_t one_in) {
      const int at = static_cast<int>(random_.Below(events));
      return Chance(one_in) ? at : -1;
    };
    kill_at_ = random_.Below(3) > 0 ? draw(1) : -1;
    fail_at_ = draw(4);
    fill_at_ = draw(6);
    damage_at_ = draw(5);
    crash_at_ = draw(3);
    stray_shard_ = Chance(8) ? 0 : -1;
    keeping_crashed_ = false;
  }
  void Strike(int event) {
    if (event == fail_at_) FailCalls();
    if (event == fill_at_) disk_.FillUp(static_cast<uint32_t>(random_.Between(1, 4)));
    if (event == damage_at_) disk_.Damage(random_.Below(5) == 0 ? "manifest" : "");
    if (event == crash_at_) disk_.CrashAfter(static_cast<uint32_t>(random_.Below(8)));
  }

  void FailCalls() {
    const auto calls = static_cast<uint32_t>(random_.Between(1, 6));
    disk_.FailCalls(calls, static_cast<uint32_t>(random_.Below(6)));
  }

  // The job's processes end; `all`: also the servers' hosts and the coordinator. Otherwise parts
  // that were cut, and a manifest in progress, are still written.
  void Die(bool all) {
    if (disk_.crashed()) {
      ++outcome_.crashes_in_writes;
      if (keeping_crashed_) ++outcome_.crashes_in_keeping;
    } else if (all) {
      disk_.Crash();
    }
    CheckData();
    disk_.Restart();
    LeaveBehind(/*written=*/!all);
    if (all) keep_pending_.reset();
    while (keep_pending_ && !disk_.crashed()) Keep();
    keep_pending_.reset();
    disk_.CrashAfter(UINT32_MAX);
    if (Chance(3)) disk_.Damage();
  }

  // Writers' pending parts are written later by surviving servers, some of them now, or never.
  void LeaveBehind(bool written) {
    stragglers_.clear();
    for (auto& [name, writer] : writers_) {
      for (PartWriter::Part& part : writer.parts) part.let_go = nullptr;
      writer.is_busy = false;
      if (!written || writer.parts.empty()) continue;
      for (uint64_t n = random_.Below(writer.parts.size() + 1); n > 0; --n) WriteNext(&writer);
      stragglers_[name] = std::move(writer);
    }
    writers_.clear();
    run_.reset();
  }

  // ---- What processes write.

  static StoreOpener OpenerOf(FaultyDisk* disk) {
    return [disk](const std::string&) { return disk->Open(); };
  }

  void Queue(PartWriter::Part part) {
    if (part.problem.empty()) {
      const std::string text = ToText(part.name, record_.job_id(), record_.attempt());
      checker_.OnCut(Checkpoints::ObjectName(part.clock, text), BytesOfFile(part.make()));
    }
    Writer& writer = writers_[part.name];
    writer.record = record_;
    const bool is_stray =
        part.name.kind == PartKind::kShard && static_cast<int>(part.name.number) == stray_shard_;
    writer.disk = is_stray ? &elsewhere_ : &disk_;
    writer.parts.push_back(std::move(part));
    Schedule(&writer);
  }
  void Schedule(Writer* writer) {
    if (writer->is_busy || writer->parts.empty()) return;
    writer->is_busy = true;
    run_->After(disk_.DrawLatency(kLatencyMax), [this, writer] {
      if (disk_.crashed()) return;
      WriteNext(writer);
      writer->is_busy = false;
      if (!disk_.crashed()) Schedule(writer);
    });
  }
  // Writes the next part as its process does, and waits for it.
  void WriteNext(Writer* writer) {
    std::vector<proto::CheckpointPart> told;
    {
      PartWriter one(writer->record, {.open = [&] { return OpenerOf(writer->disk)(kDir); },
                                      .tell =
                                          [&](const proto::CheckpointPart& part) {
                                            if (!disk_.crashed()) told.push_back(part);
                                          }});
      one.Write(std::move(writer->parts.front()));
      one.Finish();
      one.AwaitDone(absl::InfiniteDuration());
    }
    writer->parts.pop_front();
    for (const proto::CheckpointPart& part : told) {
      if (part.token() == record_.token()) ledger_.OnPart("server", part, &shown_);
    }
    KeepIfWhole();
  }

  // ---- What the coordinator does.

  void KeepIfWhole() {
    if (keep_pending_) return;
    std::optional<server::CheckpointLedger::Whole> whole = ledger_.TakeWhole();
    if (!whole) return;
    server::CheckpointToKeep& keep = keep_pending_.emplace();
    keep.dir = kDir;
    keep.keep = keep_;
    keep.manifest.job = record_.job_id();
    keep.manifest.job_name = record_.job().name();
    keep.manifest.clock = whole->clock;
    keep.manifest.written = absl::FromUnixSeconds(7);
    keep.manifest.record = record_.SerializeAsString();
    for (const proto::CheckpointObject& object : whole->objects) {
      keep.manifest.objects.push_back(
          {.name = object.name(), .bytes = object.bytes(), .checksum = object.checksum()});
    }
    if (run_ == nullptr) return;  // Die sees to it
    run_->After(disk_.DrawLatency(kLatencyMax), [this] {
      if (keep_pending_ && !disk_.crashed()) Keep();
    });
  }
  void Keep() {
    const server::CheckpointToKeep keep = *std::exchange(keep_pending_, std::nullopt);
    absl::Status deleting;
    const uint64_t failed_calls = disk_.failed_calls();
    const absl::Status kept = server::KeepCheckpoint(keep, OpenerOf(&disk_), &deleting);
    keeping_crashed_ = disk_.crashed();
    Require(checker_.Check());
    if (keeping_crashed_) return;
    ++(kept.ok() ? outcome_.kept : outcome_.failed_keeps);
    // An unreadable manifest is kept, too.
    const bool all_read = deleting.ok() && disk_.failed_calls() == failed_calls;
    if (kept.ok()) Require(checker_.CheckKept(keep.manifest.clock, keep_, all_read));
    ledger_.OnKept(keep.manifest.clock, kept, absl::FromUnixSeconds(7), &shown_);
    KeepIfWhole();
  }

  // ---- How it ends.

  void CheckEnd() {
    if (!run_->has_finished()) return Fail("ends once faults stop: nodes wait for ever");
    has_finished_ = true;
    Require(undisturbed_.CheckEnd(*run_));
  }
  // Where each node that has begun continued in its data.
  void CheckData() {
    for (size_t n = 0; n < run_->nodes(); ++n) {
      const worker::TrainingNode& node = run_->node(n);
      if (node.first_weights().empty() || node.first_clock() == StepOf(n)) continue;
      Fail(absl::StrFormat("data goes on at the clock: node %d at step %d, not %d", n,
                           node.first_clock(), StepOf(n)));
    }
  }
  uint64_t StepOf(size_t node) const {
    if (!record_.has_resume()) return 0;
    if (!case_.is_async) return record_.resume().clock() * StepsPerClock(record_.job());
    return from_.LeastApplied(node);
  }

  const uint64_t seed_;
  SimRandom random_;
  const JobCase& case_;
  FaultyDisk disk_;
  FaultyDisk elsewhere_;  // what a server with another folder under the same path sees
  StoreChecker checker_;
  Undisturbed undisturbed_;
  const uint64_t every_;
  const uint32_t keep_;
  const uint32_t nodes_;
  const uint32_t faulty_;  // attempts with faults
  StoredOutcome outcome_;

  uint32_t attempt_ = 0;
  bool has_finished_ = false;
  proto::JobRecord record_;  // of this attempt
  JobRun::From from_;
  std::unique_ptr<JobRun> run_;
  int kill_at_ = -1, fail_at_ = -1, fill_at_ = -1, damage_at_ = -1, crash_at_ = -1;  // events
  int stray_shard_ = -1;
  server::CheckpointLedger ledger_;
  proto::CheckpointStatus shown_;
  std::optional<server::CheckpointToKeep> keep_pending_;
  bool keeping_crashed_ = false;
  std::map<PartName, Writer> writers_, stragglers_;
};

}  // namespace

StoredOutcome RunStoredJob(uint64_t seed) { return StoredJob(seed).Run(); }

namespace {

constexpr int kUndisturbedEventsMax = 1'000'000;

bool SameBytes(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && std::equal(a.data(), a.data() + a.size(), b.data());
}

bool SameBits(const WeightImage& a, const WeightImage& b) {
  return SameBytes(a.weights, b.weights) &&
         std::equal(a.state.begin(), a.state.end(), b.state.begin(), b.state.end(), SameBytes);
}

}  // namespace

std::string BytesOfFile(const ImageFile& file) {
  std::string bytes;
  for (const absl::Span<const char> piece : file.Pieces()) bytes.append(piece.data(), piece.size());
  return bytes;
}

std::string Undisturbed::Run(const proto::JobRecord& record, uint64_t seed) {
  JobRun run(case_, record, seed, {});
  while (!run.is_over() && events_ < kUndisturbedEventsMax && run.RunOne()) {
    ++events_;
    for (const PartWriter::Part& part : run.TakeParts()) KeepImages(part);
  }
  if (!run.has_finished()) {
    return absl::StrCat("ends once faults stop: never disturbed, ", run.status().message());
  }
  for (size_t n = 0; n < run.nodes(); ++n) weights_.push_back(run.node(n).weights());
  return "";
}

void Undisturbed::KeepImages(const PartWriter::Part& part) {
  part.let_go();
  if (part.name.kind != PartKind::kShard || !part.problem.empty()) return;
  const auto content = std::make_shared<const std::string>(BytesOfFile(part.make()));
  const Bytes bytes(content, reinterpret_cast<const std::byte*>(content->data()), content->size());
  std::vector<ChunkImage> images = *ParseImageFile(bytes, "undisturbed");
  for (ChunkImage& image : images) images_[part.clock][image.begin] = std::move(image);
}

std::string Undisturbed::CheckImages(const std::vector<ChunkImage>& images) const {
  // If pushes are applied on arrival, any of them may be in the weights.
  if (case_.is_async) return "";
  for (const ChunkImage& image : images) {
    const auto of_clock = images_.find(image.clock);
    if (of_clock == images_.end()) continue;  // it was left out, and others were held
    const auto own = of_clock->second.find(image.begin);
    if (own == of_clock->second.end() || SameBits(image.weights, own->second.weights)) continue;
    return absl::StrFormat("goes on with the bits of that clock: clock %d, elements from %d on",
                           image.clock, image.begin);
  }
  return "";
}

std::string Undisturbed::CheckEnd(const JobRun& run) const {
  for (size_t n = 0; n < run.nodes(); ++n) {
    const std::vector<float>& weights = run.node(n).weights();
    if (!case_.has_ledger && weights != weights_[case_.keeps_nodes ? n : 0]) {
      return absl::StrFormat("ends as an undisturbed job does: node %d has other bits", n);
    }
    for (size_t i = 0; case_.has_ledger && i < weights.size(); ++i) {
      const float expected = i % kJobChunkElements < kJobSamples ? 1 : 0;
      if (weights[i] == expected) continue;
      return absl::StrFormat("each sample counts once: sample %d in chunk %d %g times",
                             i % kJobChunkElements, i / kJobChunkElements, weights[i]);
    }
  }
  return "";
}

namespace {

// The parts that a checkpoint of such a job consists of.
std::set<PartName> PartsOf(const proto::JobRecord& record) {
  std::set<PartName> parts;
  for (const uint32_t shard : record.placement().shard_of_chunk()) {
    parts.insert({.kind = PartKind::kShard, .number = shard});
  }
  if (!NodesKeepState(record.job())) return parts;
  for (const proto::LogicalNode& node : record.view().nodes()) {
    parts.insert({.kind = PartKind::kNode, .number = node.node()});
  }
  return parts;
}

std::string ManifestName(uint64_t clock) { return Checkpoints::ObjectName(clock, "manifest.json"); }

}  // namespace

void StoreChecker::OnCut(const std::string& object, std::string content) {
  cut_[object] = std::move(content);
}

std::map<uint64_t, Manifest> StoreChecker::Manifests() const {
  std::map<uint64_t, Manifest> manifests;
  for (const auto& [name, content] : disk_.Contents()) {
    if (!absl::EndsWith(name, "/manifest.json")) continue;
    absl::StatusOr<Manifest> manifest = ParseManifest(content, name);
    if (manifest.ok()) manifests[manifest->clock] = *std::move(manifest);
  }
  return manifests;
}

std::string StoreChecker::FaultIn(const Manifest& manifest) const {
  const std::map<std::string, std::string> contents = disk_.Contents();
  const std::set<std::string> damaged = disk_.Damaged();
  std::set<PartName> missing;
  proto::JobRecord record;
  if (!record.ParseFromString(manifest.record)) return "its record cannot be read";
  missing = PartsOf(record);
  for (const ObjectFacts& object : manifest.objects) {
    const std::optional<PartName> part = ParsePartName(object.name);
    if (part) missing.erase(*part);
    const auto found = contents.find(object.name);
    if (found == contents.end()) return absl::StrCat(object.name, " is not there");
    const auto cut = cut_.find(object.name);
    if (cut == cut_.end()) return absl::StrCat(object.name, " was never cut");
    if (found->second != cut->second && !damaged.contains(object.name)) {
      return absl::StrCat(object.name, " is not what was cut");
    }
  }
  if (missing.empty()) return "";
  return absl::StrFormat("%s %d is in no object", WordFor(missing.begin()->kind),
                         missing.begin()->number);
}

bool StoreChecker::IsDamaged(const Manifest& manifest) const {
  const std::set<std::string> damaged = disk_.Damaged();
  return damaged.contains(ManifestName(manifest.clock)) ||
         std::any_of(manifest.objects.begin(), manifest.objects.end(),
                     [&](const ObjectFacts& object) { return damaged.contains(object.name); });
}

bool StoreChecker::IsWhole(const Manifest& manifest) const {
  return !IsDamaged(manifest) && FaultIn(manifest).empty();
}

std::optional<uint64_t> StoreChecker::Newest() const {
  std::optional<uint64_t> newest;
  for (const auto& [clock, manifest] : Manifests()) {
    if (IsWhole(manifest)) newest = clock;
  }
  return newest;
}

std::string StoreChecker::Check() {
  const std::map<uint64_t, Manifest> manifests = Manifests();
  std::set<uint64_t> whole;
  for (const auto& [clock, manifest] : manifests) {
    const std::string fault = FaultIn(manifest);
    if (!fault.empty()) return absl::StrFormat("a manifest means whole objects: %s", fault);
    if (!IsDamaged(manifest)) whole.insert(clock);
  }
  const std::set<uint64_t> before = kept_;
  std::erase_if(kept_, [&](uint64_t clock) { return !whole.contains(clock); });
  if (!whole.empty() || before.empty()) return "";
  // A damaged object may belong to a newer checkpoint that replaced an older one.
  for (const std::string& name : disk_.Damaged()) {
    if (name >= Checkpoints::ObjectName(*before.begin(), "")) return "";
  }
  return absl::StrFormat("one stays whole: that of clock %d is gone, and there is no other",
                         *before.rbegin());
}

std::string StoreChecker::CheckKept(uint64_t clock, uint32_t keep, bool others_deleted) {
  const std::map<uint64_t, Manifest> manifests = Manifests();
  const auto own = manifests.find(clock);
  if (own == manifests.end()) {
    return absl::StrFormat("the newest are kept: clock %d is kept, but has no manifest", clock);
  }
  if (IsWhole(own->second)) kept_.insert(clock);
  if (!others_deleted || manifests.size() <= keep) return "";
  return absl::StrFormat("the newest are kept: %d manifests where %d are to be kept",
                         manifests.size(), keep);
}

std::string StoreChecker::CheckNamed(const absl::Status& refused) const {
  for (const std::string& name : disk_.Damaged()) {
    if (absl::StrContains(refused.message(), name)) return "";
  }
  return absl::StrCat("what is damaged is named: ", refused.message());
}

std::string StoreChecker::CheckPassedOver(const std::set<std::string>& damaged, uint64_t clock,
                                          const std::vector<std::string>& passed_over) {
  for (const std::string& name : damaged) {
    if (!absl::EndsWith(name, "/manifest.json") || name < ManifestName(clock)) continue;
    const bool is_named =
        std::any_of(passed_over.begin(), passed_over.end(),
                    [&](const std::string& one) { return absl::StrContains(one, name); });
    if (!is_named) return absl::StrCat("what is damaged is named: not ", name);
  }
  return "";
}

}  // namespace strata::sim
