#include "common/checkpoint/part_writer.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoints.h"
#include "common/testing/faulty_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr absl::Duration kLong = absl::Seconds(20);

proto::JobRecord Record() {
  proto::JobRecord record;
  record.set_job_id(7);
  record.set_attempt(2);
  record.set_token(1007);
  return record;
}

// A writer of job 7's second attempt that records everything it does, in order.
class PartWriterTest : public testing::Test {
 protected:
  PartWriter::Calls Calls() {
    return {.open = [this]() -> absl::StatusOr<std::unique_ptr<Store>> {
              absl::MutexLock lock(&mutex_);
              notes_.push_back("open");
              mutex_.Await(absl::Condition(&may_open_));
              if (!opening_.ok()) return opening_;
              return disk_.Open();
            },
            .tell =
                [this](const proto::CheckpointPart& part) {
                  Note(absl::StrCat("told ", part.clock(), part.error().empty() ? "" : ": ",
                                    part.error()));
                  absl::MutexLock lock(&mutex_);
                  told_.push_back(part);
                }};
  }
  void Note(const std::string& what) {
    absl::MutexLock lock(&mutex_);
    notes_.push_back(what);
  }
  std::vector<std::string> notes() {
    absl::MutexLock lock(&mutex_);
    return notes_;
  }
  std::vector<proto::CheckpointPart> told() {
    absl::MutexLock lock(&mutex_);
    return told_;
  }
  void AwaitTold(size_t count) {
    Await([this, count] {
      mutex_.AssertReaderHeld();
      return told_.size() >= count;
    });
  }
  void AwaitNotes(size_t count) {
    Await([this, count] {
      mutex_.AssertReaderHeld();
      return notes_.size() >= count;
    });
  }
  template <typename Condition>
  void Await(const Condition& holds) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), kLong));
  }
  void LetOpen(bool may) {
    absl::MutexLock lock(&mutex_);
    may_open_ = may;
  }
  void SetOpening(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    opening_ = status;
  }

  PartWriter::Part Part(uint64_t clock, PartName name = {.kind = PartKind::kNode, .number = 3}) {
    PartWriter::Part part;
    part.name = name;
    part.clock = clock;
    part.make = [this, clock] {
      Note(absl::StrCat("make ", clock));
      return ImageFile{.head = absl::StrCat("image of ", clock)};
    };
    part.let_go = [this, clock] {
      Note(absl::StrCat("let go ", clock, disk_.Contents().empty() ? "" : ", there"));
    };
    return part;
  }
  static void FinishAndWait(PartWriter* writer) {
    writer->Finish();
    EXPECT_TRUE(writer->AwaitDone(kLong));
  }

  FaultyDisk disk_{1, "disk"};
  absl::Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::vector<proto::CheckpointPart> told_ ABSL_GUARDED_BY(mutex_);
  bool may_open_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status opening_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(PartWriterTest, PartsAreMadePutLetGoOfAndToldInOrder) {
  PartWriter writer(Record(), Calls());
  writer.Write(Part(10));
  writer.Write(Part(20));
  FinishAndWait(&writer);
  EXPECT_THAT(notes(), ElementsAre("open", "make 10", "let go 10, there", "told 10", "make 20",
                                   "let go 20, there", "told 20"));
  EXPECT_THAT(disk_.Contents(),
              ElementsAre(Pair(Checkpoints::ObjectName(10, "node-3-7.2"), "image of 10"),
                          Pair(Checkpoints::ObjectName(20, "node-3-7.2"), "image of 20")));
}

TEST_F(PartWriterTest, WhatItTellsNamesThePartAndItsObject) {
  PartWriter writer(Record(), Calls());
  writer.Write(Part(10, {.kind = PartKind::kShard, .number = 1}));
  writer.Write(Part(10, {.kind = PartKind::kNode, .number = 2}));
  writer.Write(Part(10, {.kind = PartKind::kRank, .number = 4}));
  FinishAndWait(&writer);
  const std::vector<proto::CheckpointPart> parts = told();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(parts[0].has_shard());
  EXPECT_EQ(parts[0].shard(), 1u);
  EXPECT_TRUE(parts[1].has_node());
  EXPECT_EQ(parts[1].node(), 2u);
  EXPECT_TRUE(parts[2].has_rank());
  EXPECT_EQ(parts[2].rank(), 4u);
  const std::unique_ptr<Store> store = disk_.Open();
  for (const proto::CheckpointPart& part : parts) {
    EXPECT_EQ(part.job_id(), 7u);
    EXPECT_EQ(part.token(), 1007u);
    EXPECT_EQ(part.error(), "");
    const ObjectFacts facts = {.name = part.object().name(),
                               .bytes = part.object().bytes(),
                               .checksum = part.object().checksum()};
    EXPECT_EQ(facts.bytes, std::string("image of 10").size());
    EXPECT_EQ(Checkpoints(*store).Read(facts).status(), absl::OkStatus());
  }
}

TEST_F(PartWriterTest, APartWithAProblemIsToldInItsTurnAndOpensNothing) {
  PartWriter writer(Record(), Calls());
  PartWriter::Part bad = Part(10);
  bad.problem = "too slow";
  writer.Write(std::move(bad));
  writer.Write(Part(20));
  FinishAndWait(&writer);
  EXPECT_THAT(notes(),
              ElementsAre("told 10: too slow", "open", "make 20", "let go 20, there", "told 20"));
  EXPECT_FALSE(told()[0].has_object());
}

TEST_F(PartWriterTest, AfterAnErrorTheStoreIsOpenedAnewAndTheNextPartIsWritten) {
  disk_.FillUp(1);
  PartWriter writer(Record(), Calls());
  writer.Write(Part(10));
  writer.Write(Part(20));
  FinishAndWait(&writer);
  const std::string full =
      absl::StrCat("disk/", Checkpoints::ObjectName(10, "node-3-7.2"), ": no space left");
  EXPECT_THAT(notes(), ElementsAre("open", "make 10", "let go 10", "told 10: " + full, "open",
                                   "make 20", "let go 20, there", "told 20"));
  EXPECT_FALSE(told()[0].has_object());
  EXPECT_THAT(disk_.Contents(), testing::SizeIs(1));
}

TEST_F(PartWriterTest, AStoreThatCannotBeOpenedIsTriedAgainWithTheNextPart) {
  SetOpening(absl::UnavailableError("503"));
  PartWriter writer(Record(), Calls());
  writer.Write(Part(10));
  AwaitTold(1);
  SetOpening(absl::OkStatus());
  writer.Write(Part(20));
  FinishAndWait(&writer);
  EXPECT_THAT(notes(), ElementsAre("open", "let go 10", "told 10: 503", "open", "make 20",
                                   "let go 20, there", "told 20"));
}

TEST_F(PartWriterTest, APartThatNobodyAsksBackIsWrittenAlike) {
  PartWriter writer(Record(), Calls());
  PartWriter::Part part = Part(10);
  part.let_go = nullptr;
  writer.Write(std::move(part));
  FinishAndWait(&writer);
  EXPECT_THAT(notes(), ElementsAre("open", "make 10", "told 10"));
}

TEST_F(PartWriterTest, FinishWritesWhatIsQueuedAndTakesNoMore) {
  LetOpen(false);
  PartWriter writer(Record(), Calls());
  writer.Write(Part(10));
  writer.Write(Part(20));
  writer.Finish();
  writer.Write(Part(30));
  EXPECT_FALSE(writer.done());
  EXPECT_FALSE(writer.AwaitDone(absl::ZeroDuration()));
  LetOpen(true);
  EXPECT_TRUE(writer.AwaitDone(kLong));
  EXPECT_TRUE(writer.done());
  ASSERT_EQ(told().size(), 2u);
  EXPECT_EQ(told()[1].clock(), 20u);
}

TEST_F(PartWriterTest, AWriterWithNothingToDoIsDoneOnceItIsFinished) {
  PartWriter writer(Record(), Calls());
  EXPECT_FALSE(writer.AwaitDone(absl::ZeroDuration()));
  FinishAndWait(&writer);
  EXPECT_THAT(notes(), IsEmpty());
}

TEST_F(PartWriterTest, ItsEndLeavesWhatIsQueuedUnwritten) {
  constexpr uint64_t kEnough = 300'000;  // number of parts; the writer never reaches the last one
  absl::Notification began;
  uint64_t made = 0;
  auto writer = std::make_unique<PartWriter>(
      Record(), PartWriter::Calls{.open = [this] { return disk_.Open(); },
                                  .tell = [](const proto::CheckpointPart&) {}});
  PartWriter& queue = *writer;
  // Each part queues the next one, so that there is always an unwritten one.
  const std::function<void()> write_next = [&] {
    PartWriter::Part part = Part(10);
    part.let_go = nullptr;
    part.make = [&] {
      if (++made == 1) began.Notify();
      if (made < kEnough) write_next();
      return ImageFile();
    };
    queue.Write(std::move(part));
  };
  write_next();
  began.WaitForNotification();
  writer.reset();
  EXPECT_GE(made, 1u);
  EXPECT_LT(made, kEnough);
}

TEST_F(PartWriterTest, WhatItGivesUpIsToldAsAProblemAndNothingAfterThat) {
  LetOpen(false);
  PartWriter writer(Record(), Calls());
  writer.Write(Part(10));
  AwaitNotes(1);
  writer.Write(Part(20));
  writer.GiveUp("late");
  ASSERT_EQ(told().size(), 2u);
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(told()[i].error(), "late");
    EXPECT_EQ(told()[i].clock(), 10 * (i + 1));
    EXPECT_EQ(told()[i].job_id(), 7u);
    EXPECT_TRUE(told()[i].has_node());
  }
  LetOpen(true);
  EXPECT_TRUE(writer.AwaitDone(kLong));
  EXPECT_EQ(told().size(), 2u);
}

TEST_F(PartWriterTest, APartOfSeveralObjectsIsToldOnceAndAsksForThoseThatFollow) {
  const auto piece = [this](uint32_t number, bool goes_on) {
    PartWriter::Part part = Part(10, {.kind = PartKind::kRows, .number = 4, .piece = number});
    part.goes_on = goes_on;
    part.buckets = {number, number + 1};
    return part;
  };
  PartWriter writer(Record(), Calls());
  PartWriter::Part first = piece(0, true);
  first.next = [&] {
    PartWriter::Part second = piece(1, true);
    second.next = [&] { return piece(2, false); };
    return second;
  };
  writer.Write(std::move(first));
  writer.Write(Part(20));
  FinishAndWait(&writer);
  ASSERT_EQ(told().size(), 2u);
  const proto::CheckpointPart part = told()[0];
  EXPECT_EQ(part.rows(), 4u);
  ASSERT_EQ(part.pieces_size(), 3);
  EXPECT_EQ(part.pieces(2).name(), Checkpoints::ObjectName(10, "rows-4.2-7.2"));
  EXPECT_THAT(part.pieces(2).buckets(), ElementsAre(2, 3));
}

TEST_F(PartWriterTest, TheRestOfAPartMayBeLeftUnwritten) {
  PartWriter writer(Record(), Calls());
  PartWriter::Part first = Part(10, {.kind = PartKind::kRows, .number = 4});
  first.goes_on = true;
  bool is_asked = false;
  first.next = [&] {
    is_asked = true;
    return Part(10);
  };
  writer.LeaveRest();
  writer.Write(std::move(first));
  writer.Write(Part(20));
  FinishAndWait(&writer);
  EXPECT_FALSE(is_asked);
  ASSERT_EQ(told().size(), 1u);
  EXPECT_EQ(told()[0].clock(), 20u);
}

TEST_F(PartWriterTest, APartOfWhichObjectsAreMissingIsGivenUpWithTheRest) {
  PartWriter writer(Record(), Calls());
  PartWriter::Part first = Part(10, {.kind = PartKind::kRows, .number = 4});
  first.goes_on = true;
  writer.Write(std::move(first));
  AwaitNotes(3);  // open, make, let go
  writer.GiveUp("over");
  ASSERT_EQ(told().size(), 1u);
  EXPECT_EQ(told()[0].error(), "over");
  EXPECT_EQ(told()[0].rows(), 4u);
  EXPECT_EQ(told()[0].pieces_size(), 0);
}

TEST_F(PartWriterTest, AStoreThatDoesNotAnswerDoesNotHoldUpItsEnd) {
  LetOpen(false);
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> thread_is_there = token;
  PartWriter::Calls calls = Calls();
  calls.open = [open = calls.open, token = std::move(token)] { return open(); };
  auto writer = std::make_unique<PartWriter>(Record(), std::move(calls));
  writer->Write(Part(10));
  AwaitNotes(1);
  writer.reset();
  EXPECT_FALSE(thread_is_there.expired());
  LetOpen(true);
  const absl::Time deadline = absl::Now() + kLong;
  while (!thread_is_there.expired() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(thread_is_there.expired());
  EXPECT_THAT(told(), IsEmpty());
}

}  // namespace
}  // namespace strata
