#include "server/daemon/job_checkpoints.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/shard_rows.h"

namespace strata::server {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLong = absl::Seconds(20);

// Objects in memory, in a store that fails or stalls on request.
struct Memory {
  absl::Mutex mutex;
  std::map<std::string, std::string> objects ABSL_GUARDED_BY(mutex);
  int opened ABSL_GUARDED_BY(mutex) = 0;
  int gets ABSL_GUARDED_BY(mutex) = 0;
  int at_the_gate ABSL_GUARDED_BY(mutex) = 0;
  bool stalls ABSL_GUARDED_BY(mutex) = false;
  absl::Status answer ABSL_GUARDED_BY(mutex);

  void Set(bool stall, const absl::Status& status = absl::OkStatus()) {
    absl::MutexLock lock(&mutex);
    stalls = stall;
    answer = status;
  }
  absl::Status Enter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    ++at_the_gate;
    mutex.Await(absl::Condition(
        +[](Memory* memory) { return !memory->stalls; }, this));
    return answer;
  }
  void AwaitAtTheGate(int count) {
    const auto are_there = [this, count] {
      mutex.AssertReaderHeld();
      return at_the_gate >= count;
    };
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&are_there), kLong));
  }
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override {
    absl::MutexLock lock(&memory_->mutex);
    if (absl::Status status = memory_->Enter(); !status.ok()) return status;
    std::string& object = memory_->objects[name];
    object.clear();
    for (const absl::Span<const char> piece : pieces) object.append(piece.data(), piece.size());
    return absl::OkStatus();
  }
  absl::Status PutNew(const std::string&, absl::Span<const absl::Span<const char>>) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t /*bytes_max*/) override {
    absl::MutexLock lock(&memory_->mutex);
    ++memory_->gets;
    if (absl::Status status = memory_->Enter(); !status.ok()) return status;
    const auto found = memory_->objects.find(name);
    if (found == memory_->objects.end()) return absl::NotFoundError(name);
    const auto text = std::make_shared<std::string>(found->second);
    return Bytes(text, reinterpret_cast<const std::byte*>(text->data()), text->size());
  }
  // Passes the data on in oddly sized pieces.
  absl::Status Read(const std::string& name, const TakePiece& take) override {
    const absl::StatusOr<Bytes> content = Get(name);
    if (!content.ok()) return content.status();
    absl::Span<const char> rest(reinterpret_cast<const char*>(content->data()), content->size());
    absl::Status taken;
    for (; taken.ok() && !rest.empty(); rest.remove_prefix(std::min<size_t>(rest.size(), 7))) {
      taken = take(content->size(), rest.subspan(0, 7));
    }
    return taken;
  }
  absl::StatusOr<std::vector<std::string>> List() override { return std::vector<std::string>(); }
  absl::Status Delete(const std::string&) override { return absl::OkStatus(); }
  absl::Status DeleteFolder(const std::string&) override { return absl::OkStatus(); }
  const std::string& where() const override { return where_; }

 private:
  const std::string where_ = "memory";
  const std::shared_ptr<Memory> memory_;
};

class JobCheckpointsTest : public testing::Test {
 protected:
  void TearDown() override { memory_->Set(/*stall=*/false); }

  static proto::JobRecord Record(uint32_t attempt = 0) {
    proto::JobRecord record;
    record.set_job_id(1);
    record.set_token(70 + attempt);
    record.set_attempt(attempt);
    record.mutable_job()->mutable_checkpoint()->set_dir("/c");
    return record;
  }
  // A cut of `chunks` chunks of one element.
  static ShardCut Cut(uint64_t clock, uint32_t shard = 0, uint64_t chunks = 1) {
    ShardCut cut{{.clock = clock}, JobId(1), ShardId(shard)};
    for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
      ChunkImage& image = cut.images.emplace_back();
      image.begin = chunk;
      image.clock = clock;
      image.weights.weights =
          Bytes(nullptr, reinterpret_cast<const std::byte*>(&kWeights), sizeof(kWeights));
    }
    return cut;
  }
  void Tell(const proto::CheckpointPart& part) {
    absl::MutexLock lock(&mutex_);
    parts_.push_back(part);
  }
  std::vector<proto::CheckpointPart> AwaitParts(size_t count) {
    const auto are_there = [this, count] {
      mutex_.AssertReaderHeld();
      return parts_.size() >= count;
    };
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&are_there), kLong));
    return parts_;
  }
  std::vector<std::string> let_go() {
    absl::MutexLock lock(&mutex_);
    return let_go_;
  }
  // The checkpoint that a job resumes from: the object of the part.
  static proto::JobRecord GoesOnFrom(const proto::CheckpointPart& part) {
    proto::JobRecord record = Record(1);
    record.mutable_placement()->add_shard_of_chunk(0);
    record.mutable_resume()->set_dir("/c");
    record.mutable_resume()->set_clock(part.clock());
    *record.mutable_resume()->add_objects() = part.object();
    record.mutable_resume()->add_object_of_chunk(0);
    return record;
  }
  proto::CheckpointPart Written(uint64_t clock, uint64_t chunks = 1) {
    checkpoints_.Begin(Record());
    checkpoints_.OnCut(Cut(clock, /*shard=*/0, chunks));
    const proto::CheckpointPart part = AwaitParts(1).at(0);
    checkpoints_.End(JobId(1));
    return part;
  }

  static constexpr float kWeights = 3;
  const std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  absl::Mutex mutex_;
  std::vector<proto::CheckpointPart> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> let_go_ ABSL_GUARDED_BY(mutex_);
  JobCheckpoints checkpoints_{JobCheckpoints::Calls{
      .open = [memory = memory_](const std::string&) -> absl::StatusOr<std::unique_ptr<Store>> {
        absl::MutexLock lock(&memory->mutex);
        ++memory->opened;
        return std::make_unique<MemoryStore>(memory);
      },
      .tell = [this](const proto::CheckpointPart& part) { Tell(part); },
      .let_go =
          [this](JobId job, ShardId shard, uint64_t clock) {
            absl::MutexLock lock(&mutex_);
            let_go_.push_back(absl::StrCat(job.value(), " ", shard.value(), " ", clock));
          },
      .let_go_rows =
          [this](JobId job, ShardId shard) {
            absl::MutexLock lock(&mutex_);
            let_go_.push_back(absl::StrCat(job.value(), " ", shard.value(), " rows"));
          }}};
};

absl::Status NoRows(const RowsImage&) {
  ADD_FAILURE() << "there are none";
  return absl::OkStatus();
}

TEST_F(JobCheckpointsTest, CutsAreWrittenInOrderAndThenLetGoOf) {
  checkpoints_.Begin(Record());
  checkpoints_.OnCut(Cut(10));
  checkpoints_.OnCut(Cut(10, 1));
  checkpoints_.OnCut(Cut(20));
  const std::vector<proto::CheckpointPart> parts = AwaitParts(3);
  EXPECT_EQ(parts[0].job_id(), 1);
  EXPECT_EQ(parts[0].token(), 70);
  EXPECT_EQ(parts[0].object().name(), "clock-00000000000000000010/shard-0-1.0");
  EXPECT_EQ(parts[1].shard(), 1);
  EXPECT_EQ(parts[2].clock(), 20);
  EXPECT_THAT(let_go(), ElementsAre("1 0 10", "1 1 10", "1 0 20"));
  absl::MutexLock lock(&memory_->mutex);
  EXPECT_EQ(memory_->opened, 1);
  EXPECT_EQ(memory_->objects.at(parts[0].object().name()).size(), parts[0].object().bytes());
}

TEST_F(JobCheckpointsTest, ACutThatCannotBeWrittenIsToldAndTheStoreIsOpenedAnew) {
  memory_->Set(/*stall=*/false, absl::ResourceExhaustedError("no space"));
  checkpoints_.Begin(Record());
  checkpoints_.OnCut(Cut(10));
  EXPECT_EQ(AwaitParts(1)[0].error(), "no space");
  memory_->Set(/*stall=*/false);
  checkpoints_.OnCut(Cut(20));
  EXPECT_EQ(AwaitParts(2)[1].error(), "");
  EXPECT_THAT(let_go(), ElementsAre("1 0 10", "1 0 20"));
  absl::MutexLock lock(&memory_->mutex);
  EXPECT_EQ(memory_->opened, 2);
}

TEST_F(JobCheckpointsTest, ACutWithAProblemIsReportedAndKept) {
  checkpoints_.Begin(Record());
  checkpoints_.OnCut({{.clock = 10, .problem = "too slow"}, JobId(1), ShardId(0)});
  EXPECT_EQ(AwaitParts(1)[0].error(), "too slow");
  EXPECT_THAT(let_go(), IsEmpty());
}

TEST_F(JobCheckpointsTest, WhatIsQueuedWhenTheJobEndsIsWrittenStill) {
  memory_->Set(/*stall=*/true);
  checkpoints_.Begin(Record());
  checkpoints_.OnCut(Cut(10));
  checkpoints_.OnCut(Cut(20));
  checkpoints_.End(JobId(1));
  checkpoints_.OnCut(Cut(30));  // of an unknown job
  memory_->Set(/*stall=*/false);
  EXPECT_EQ(AwaitParts(2)[1].clock(), 20);
}

TEST_F(JobCheckpointsTest, ALaterAttemptHasItsOwnObjectsTokenAndCuts) {
  memory_->Set(/*stall=*/true);
  checkpoints_.Begin(Record());
  checkpoints_.OnCut(Cut(10));
  memory_->AwaitAtTheGate(1);
  checkpoints_.End(JobId(1));
  checkpoints_.Begin(Record(1));
  checkpoints_.OnCut(Cut(10));
  memory_->AwaitAtTheGate(2);
  EXPECT_THAT(AwaitParts(0), IsEmpty());
  memory_->Set(/*stall=*/false);
  std::vector<std::string> names;
  for (const proto::CheckpointPart& part : AwaitParts(2)) {
    names.push_back(absl::StrCat(part.object().name(), " ", part.token()));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("clock-00000000000000000010/shard-0-1.0 70",
                                                   "clock-00000000000000000010/shard-0-1.1 71"));
  EXPECT_THAT(let_go(), ElementsAre("1 0 10")) << "the first attempt's is nobody's";
}

TEST_F(JobCheckpointsTest, AStopLeavesWhatIsQueuedAndWaitsForTheCallInHand) {
  memory_->Set(/*stall=*/true);
  checkpoints_.Begin(Record());
  checkpoints_.OnCut(Cut(10));
  checkpoints_.OnCut(Cut(20));
  memory_->AwaitAtTheGate(1);
  absl::Notification stopped;
  std::thread stop([&] {
    checkpoints_.Stop();
    stopped.Notify();
  });
  EXPECT_FALSE(stopped.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  memory_->Set(/*stall=*/false, absl::CancelledError("stopped"));
  stop.join();
  EXPECT_EQ(AwaitParts(1).size(), 1);
}

TEST_F(JobCheckpointsTest, ImagesAreReadAndHandedOver) {
  const proto::JobRecord record = GoesOnFrom(Written(10));
  absl::Notification told;
  std::vector<ChunkImage> taken;
  absl::Status outcome = absl::UnknownError("");
  checkpoints_.Load(record, {ShardId(0)},
                    {.take =
                         [&](absl::Span<const ChunkImage> images) {
                           taken.assign(images.begin(), images.end());
                           return absl::AbortedError("from take");
                         },
                     .finish =
                         [] {
                           ADD_FAILURE() << "not all is taken";
                           return absl::OkStatus();
                         },
                     .tell =
                         [&](const absl::Status& status) {
                           outcome = status;
                           told.Notify();
                         }});
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kLong));
  ASSERT_EQ(taken.size(), 1);
  EXPECT_EQ(taken[0].clock, 10);
  EXPECT_EQ(outcome, absl::AbortedError("from take"));
}

TEST_F(JobCheckpointsTest, ImagesAreHandedOverOneAfterTheOtherAndThenItIsFinished) {
  const proto::JobRecord record = GoesOnFrom(Written(10, /*chunks=*/3));
  absl::Notification told;
  std::string seen;
  absl::Status outcome = absl::UnknownError("");
  checkpoints_.Load(record, {ShardId(0)},
                    {.take =
                         [&](absl::Span<const ChunkImage> images) {
                           for (const ChunkImage& image : images) {
                             absl::StrAppend(&seen, image.begin, " ");
                             EXPECT_EQ(image.weights.weights.floats()[0], kWeights);
                           }
                           return absl::OkStatus();
                         },
                     .finish =
                         [&] {
                           seen += "finish";
                           return absl::AbortedError("from finish");
                         },
                     .tell =
                         [&](const absl::Status& status) {
                           outcome = status;
                           told.Notify();
                         }});
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(seen, "0 1 2 finish");
  EXPECT_EQ(outcome, absl::AbortedError("from finish"));
}

TEST_F(JobCheckpointsTest, AskedAgainItReadsOnceAndTellsAgainHowThatWent) {
  const proto::JobRecord record = GoesOnFrom(Written(10));
  memory_->Set(/*stall=*/true);
  int taken = 0, told = 0;
  const JobCheckpoints::LoadCalls calls = {.take =
                                               [&](absl::Span<const ChunkImage>) {
                                                 absl::MutexLock lock(&mutex_);
                                                 ++taken;
                                                 return absl::OkStatus();
                                               },
                                           .finish = [] { return absl::OkStatus(); },
                                           .tell =
                                               [&](const absl::Status& status) {
                                                 absl::MutexLock lock(&mutex_);
                                                 EXPECT_EQ(status, absl::OkStatus());
                                                 ++told;
                                               }};
  checkpoints_.Load(record, {ShardId(0)}, calls);
  checkpoints_.Load(record, {ShardId(0)}, calls);
  memory_->Set(/*stall=*/false);
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(
                                            +[](int* count) { return *count == 1; }, &told),
                                        kLong));
  }
  checkpoints_.Load(record, {ShardId(0)}, calls);
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(taken, 1);
  absl::MutexLock memory_lock(&memory_->mutex);
  EXPECT_EQ(memory_->gets, 1);
}

TEST_F(JobCheckpointsTest, NothingIsHandedOverOnceTheJobHasEnded) {
  const proto::JobRecord record = GoesOnFrom(Written(10));
  memory_->Set(/*stall=*/true);
  checkpoints_.Load(record, {ShardId(0)},
                    {.take =
                         [](absl::Span<const ChunkImage>) {
                           ADD_FAILURE();
                           return absl::OkStatus();
                         },
                     .finish =
                         [] {
                           ADD_FAILURE();
                           return absl::OkStatus();
                         },
                     .tell = [](const absl::Status&) { ADD_FAILURE(); }});
  memory_->AwaitAtTheGate(2);  // a put, and the get
  checkpoints_.End(JobId(1));
  memory_->Set(/*stall=*/false);
  checkpoints_.Stop();
}

TEST_F(JobCheckpointsTest, DamageIsNamedAndToldFromAStoreThatDoesNotAnswer) {
  const proto::CheckpointPart part = Written(10);
  MemoryStore store(memory_);
  const auto load = [&](const proto::JobRecord& record) {
    return LoadCheckpoint(
        record, {ShardId(0)}, store, [](absl::Span<const ChunkImage>) { return absl::OkStatus(); },
        NoRows);
  };
  EXPECT_EQ(load(GoesOnFrom(part)), absl::OkStatus());
  proto::JobRecord other = GoesOnFrom(part);
  other.mutable_resume()->set_clock(11);
  EXPECT_THAT(load(other).message(), HasSubstr("are of clock 10, not 11"));
  other = GoesOnFrom(part);
  other.mutable_placement()->add_shard_of_chunk(0);
  EXPECT_EQ(load(other).message(), "the checkpoint has 1 chunks, the job 2");
  other = GoesOnFrom(part);
  other.mutable_resume()->set_object_of_chunk(0, 1);
  EXPECT_EQ(load(other).message(), "chunk 0 is in object 1 of the checkpoint's 1");
  other = GoesOnFrom(part);
  other.mutable_resume()->mutable_objects(0)->set_checksum(1);
  EXPECT_EQ(load(other).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(IsDamage(load(other)));
  other.mutable_resume()->mutable_objects(0)->set_name("clock-1/gone");
  EXPECT_TRUE(IsDamage(load(other)));
  memory_->Set(/*stall=*/false, absl::UnavailableError("503"));
  EXPECT_EQ(load(GoesOnFrom(part)), absl::UnavailableError("503"));
  EXPECT_FALSE(IsDamage(load(GoesOnFrom(part))));
  const absl::Status none = LoadCheckpoint(
      GoesOnFrom(part), {ShardId(5)}, store,
      [](absl::Span<const ChunkImage>) {
        ADD_FAILURE() << "none of its own";
        return absl::OkStatus();
      },
      NoRows);
  EXPECT_EQ(none, absl::OkStatus());
}

// A piece of rows of two buckets, of which one has a row.
ShardRowsPiece SomeRows(uint32_t number, bool is_last, uint32_t bucket) {
  const rows::TableSpec spec = {.name = "items", .columns = 2, .capacity = 100, .seed = 3};
  uint64_t id = 0;
  while (rows::BucketOf(3, id, 2) != bucket) ++id;
  auto table = *rows::RowTable::Create(spec, 2);
  const float weights[] = {1.5f, static_cast<float>(id)};
  table->Store({id}, weights, nullptr, 4);
  ShardRowsPiece piece;
  piece.clock = 10;
  piece.number = number;
  piece.is_last = is_last;
  piece.buckets = 4;
  piece.parts = {{.bucket = bucket, .version = 7, .applied = {10, 11}}};
  piece.packed.emplace_back();
  table->BeginCut(bucket, 10);
  table->TakeCut(bucket, 1 << 20, &piece.packed[0]);
  piece.job = JobId(1);
  piece.shard = ShardId(0);
  piece.tables = std::make_shared<const std::vector<rows::TableSpec>>(1, spec);
  return piece;
}

TEST_F(JobCheckpointsTest, PiecesOfRowsAreOnePartAndComeBackToTheShardsThatHaveTheirBuckets) {
  checkpoints_.Begin(Record());
  checkpoints_.OnRows(SomeRows(0, false, 1));
  checkpoints_.OnRows(SomeRows(1, true, 2));
  const proto::CheckpointPart part = AwaitParts(1).at(0);
  EXPECT_EQ(part.error(), "");
  EXPECT_TRUE(part.has_rows() && part.rows() == 0 && !part.has_object());
  ASSERT_EQ(part.pieces_size(), 2);
  EXPECT_EQ(part.pieces(1).name(), "clock-00000000000000000010/rows-0.1-1.0");
  EXPECT_THAT(part.pieces(0).buckets(), ElementsAre(1));
  EXPECT_THAT(let_go(), ElementsAre("1 0 rows", "1 0 rows"));

  proto::JobRecord record = Record();
  for (const uint32_t shard : {0, 1, 0, 1}) record.mutable_placement()->add_shard_of_bucket(shard);
  record.mutable_placement()->clear_shard_of_chunk();
  record.mutable_resume()->set_clock(10);
  for (const proto::CheckpointObject& piece : part.pieces()) {
    *record.mutable_resume()->add_objects() = piece;
  }
  MemoryStore store(memory_);
  std::vector<RowsImage> taken;
  const auto load = [&](uint32_t shard) {
    taken.clear();
    return LoadCheckpoint(
        record, {ShardId(shard)}, store,
        [](absl::Span<const ChunkImage>) { return absl::OkStatus(); },
        [&](const RowsImage& rows) {
          taken.push_back(rows);
          return absl::OkStatus();
        });
  };
  ASSERT_EQ(load(1), absl::OkStatus());
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].clock, 10u);
  EXPECT_EQ(taken[0].parts[0].bucket, 1u);
  EXPECT_THAT(taken[0].parts[0].applied, ElementsAre(10, 11));
  ASSERT_EQ(taken[0].tables.size(), 1u);
  EXPECT_EQ(taken[0].tables[0].weights[0], 1.5f);
  EXPECT_EQ(taken[0].tables[0].clocks[0], 4u);
  ASSERT_EQ(load(0), absl::OkStatus());
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].parts[0].bucket, 2u);
  record.mutable_resume()->set_clock(11);
  EXPECT_THAT(load(0).message(), HasSubstr("its rows are of clock 10, not 11"));
}

TEST_F(JobCheckpointsTest, WhatIsLeftOfAJobsRowsIsWrittenAndTheCopyThatWaitedForIt) {
  RowsPlan plan;
  plan.tables = {{.name = "items", .columns = 2, .capacity = 100}};
  plan.columns = {2};
  plan.buckets = {0};
  plan.cut_every = 2;
  std::shared_ptr<ShardRows> rows = *ShardRows::Create(plan, 1);
  for (const uint64_t clock : {2, 4, 6, 8}) rows->cuts().OnClock(0, clock, clock, {});
  EXPECT_EQ(rows->cuts().Take().size(), 2u);  // and no more while they are not written
  ShardRowsPiece piece;
  static_cast<RowsPiece&>(piece) = *rows->cuts().TakeRest();
  piece.job = JobId(1);
  piece.shard = ShardId(0);
  piece.tables = std::make_shared<const std::vector<rows::TableSpec>>(plan.tables);
  piece.rest = std::move(rows);
  checkpoints_.Begin(Record());
  checkpoints_.OnRows(std::move(piece));
  const std::vector<proto::CheckpointPart> parts = AwaitParts(2);
  EXPECT_EQ(parts[0].clock(), 6);
  EXPECT_EQ(parts[1].clock(), 8);
  for (const proto::CheckpointPart& part : parts) {
    EXPECT_EQ(part.error(), "");
    EXPECT_EQ(part.pieces_size(), 1);
  }
}

TEST_F(JobCheckpointsTest, APartOfRowsOfWhichAPieceFailsIsToldOnceAndItsOtherPiecesAreNotWritten) {
  checkpoints_.Begin(Record());
  memory_->Set(/*stall=*/false, absl::UnavailableError("503"));
  checkpoints_.OnRows(SomeRows(0, false, 1));
  const proto::CheckpointPart part = AwaitParts(1).at(0);
  EXPECT_EQ(part.error(), "503");
  memory_->Set(/*stall=*/false);
  checkpoints_.OnRows(SomeRows(1, true, 2));
  ShardRowsPiece given_up;
  given_up.clock = 20;
  given_up.problem = "too slow";
  given_up.job = JobId(1);
  given_up.shard = ShardId(0);
  checkpoints_.OnRows(std::move(given_up));
  const std::vector<proto::CheckpointPart> parts = AwaitParts(2);
  EXPECT_EQ(parts[1].error(), "too slow");
  EXPECT_EQ(parts[1].clock(), 20);
  EXPECT_THAT(let_go(), ElementsAre("1 0 rows", "1 0 rows"));
}

}  // namespace

}  // namespace strata::server
