#include "worker/client/connect/arena_client.h"

#include <sys/socket.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/os/framed_channel.h"
#include "common/unique_fd.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/client/connect/rank_views.h"
#include "worker/client/connect/step_clock.h"
#include "worker/client/connect/tensor_set.h"

namespace strata::client {

namespace {

TEST(ArenaClientTest, AProgramThatDoesNotKnowOfDevicesIsToldSoBeforeItCrashes) {
  proto::Launch launch;
  launch.mutable_record()->mutable_job()->set_device(proto::Job::GPU);
  ArenaClient client(launch, std::make_shared<AgentChannel>(-1), nullptr);
  float memory[2] = {};
  Tensor copied{.name = "b", .shape = {1}};
  copied.weights = &memory[0];
  copied.gradients = &memory[1];
  ASSERT_TRUE(client.Register(copied).ok());
  ASSERT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
  EXPECT_EQ(client.Allocate(),
            absl::FailedPreconditionError("device: GPU, but the program, which keeps \"w\" in the "
                                          "arena, has not called devices().Accept()"));
}

// A link whose calls all fail.
class FailingLink final : public RankLink {
 public:
  explicit FailingLink(absl::Status why) : why_(std::move(why)) {}
  absl::StatusOr<ArenaView> Allocate(const proto::Layout&) override { return why_; }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override { return why_; }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return why_; }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return why_; }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t) override { return why_; }
  absl::Status Finish(uint64_t) override { return why_; }
  absl::Status KeepWeights() override { return why_; }
  proto::NodeCounters Counters() const override { return {}; }

 private:
  const absl::Status why_;
};

// Returns what the worker daemon is told after this error of the link.
std::string SaidOf(const absl::Status& why) {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  FramedChannel daemon{UniqueFd(fds[0])};
  {
    ArenaClient client({}, std::make_shared<AgentChannel>(fds[1]),
                       std::make_unique<FailingLink>(why));
    EXPECT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
    EXPECT_EQ(client.Allocate(), why);
  }
  proto::ChildMessage message;
  return daemon.Receive(&message, absl::Seconds(60)).ok() ? message.failed() : "nothing";
}

TEST(ArenaClientTest, WhatGoesWrongWithTheRankItselfIsSaidAndWhatOthersDoIsNot) {
  EXPECT_EQ(SaidOf(absl::InternalError("device 1: NCCL: an error")), "device 1: NCCL: an error");
  EXPECT_EQ(SaidOf(absl::UnavailableError("rank 1 is gone")), "nothing");
}

// A link whose waits all end only when the program no longer wants them.
class WaitingLink final : public RankLink {
 public:
  void AskInWaits(device::StillWanted still_wanted) override { asks_ = std::move(still_wanted); }
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override {
    memory_.resize(2 * layout.elements());
    return ArenaView{absl::MakeSpan(memory_).subspan(0, layout.elements()),
                     absl::MakeSpan(memory_).subspan(layout.elements())};
  }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override {
    if (absl::Status status = WaitIf(kStart); !status.ok()) return status;
    return RunFacts{.chunk_elements = 4};
  }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return WaitIf(kBeginStep); }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return WaitIf(kAwaitWeights); }
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t) override {
    published += chunks.size();
    return WaitIf(kPublish);
  }
  absl::Status Finish(uint64_t) override { return WaitIf(kFinish); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  enum Call { kNone, kStart, kBeginStep, kAwaitWeights, kPublish, kFinish } waits_in = kNone;
  size_t published = 0;

 private:
  absl::Status WaitIf(Call call) const {
    absl::Status status;
    while (status.ok() && waits_in == call) {
      absl::SleepFor(absl::Milliseconds(1));
      status = asks_();
    }
    return status;
  }

  device::StillWanted asks_;
  std::vector<float> memory_;
};

// The link of a job that resumes at step 6. Records the step of each call.
class ResumedLink final : public RankLink {
 public:
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override {
    memory_.resize(2 * layout.elements());
    return ArenaView{absl::MakeSpan(memory_).subspan(0, layout.elements()),
                     absl::MakeSpan(memory_).subspan(layout.elements())};
  }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override {
    return RunFacts{.chunk_elements = 4, .samples_per_epoch = 160, .first_step = 6};
  }
  absl::Status BeginStep(uint64_t step, uint32_t, float) override { return Note(step); }
  absl::Status AwaitWeights(ChunkId, uint64_t step) override { return Note(step); }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t step) override { return Note(step); }
  absl::Status Finish(uint64_t steps) override { return Note(steps); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  std::vector<uint64_t> steps;

 private:
  absl::Status Note(uint64_t step) {
    steps.push_back(step);
    return absl::OkStatus();
  }

  std::vector<float> memory_;
};

TEST(ArenaClientTest, OfAJobThatGoesOnStepsAndSamplesCountFromTheBeginningOfItsTraining) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  FramedChannel daemon{UniqueFd(fds[0])};
  proto::Launch launch;
  proto::Job* const job = launch.mutable_record()->mutable_job();
  job->set_ranks(2);
  job->set_epochs(9);
  job->mutable_schedule()->set_base_lr(1);
  job->mutable_schedule()->set_warmup_epochs(1);
  auto made = std::make_unique<ResumedLink>();
  ResumedLink* const link = made.get();
  ArenaClient client(launch, std::make_shared<AgentChannel>(fds[1]), std::move(made));
  ASSERT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
  EXPECT_EQ(client.first_step(), 0u);
  ASSERT_EQ(client.Start({.can_resume = true}), absl::OkStatus());
  EXPECT_EQ(client.first_step(), 6u);
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(client.BeginStep(8), absl::OkStatus());
    ASSERT_EQ(client.WaitAll(), absl::OkStatus());
    ASSERT_EQ(client.FinishStep(), absl::OkStatus());
  }
  ASSERT_EQ(client.Send({}), absl::OkStatus());
  ASSERT_EQ(client.Finish(), absl::OkStatus());
  EXPECT_EQ(link->steps, (std::vector<uint64_t>{6, 6, 6, 7, 7, 7, 8}));
  proto::ChildMessage message;
  ASSERT_TRUE(daemon.Receive(&message, absl::Seconds(60)).ok());
  EXPECT_FLOAT_EQ(message.report().lr(),
                  LearningRateAt(JobSchedule(*job), 8 * 8 * 2, 160, job->epochs()));
}

class InterruptTest : public testing::Test {
 protected:
  InterruptTest() {
    client_.OnWait([this] { return ++asked_ >= interrupts_at_; });
    EXPECT_TRUE(client_.Register({.name = "w", .shape = {4}}).ok());
    EXPECT_TRUE(client_.Register({.name = "b", .shape = {4}}).ok());
  }
  void Start() {
    ASSERT_EQ(client_.Start({}), absl::OkStatus());
    ASSERT_EQ(client_.BeginStep(1), absl::OkStatus());
    ASSERT_EQ(client_.FinishStep(), absl::OkStatus());
  }

  const absl::Status interrupted_ = absl::CancelledError("interrupted");
  std::unique_ptr<WaitingLink> made_ = std::make_unique<WaitingLink>();
  WaitingLink* const link_ = made_.get();
  ArenaClient client_{{}, std::make_shared<AgentChannel>(-1), std::move(made_)};
  int asked_ = 0, interrupts_at_ = 1;
};

TEST_F(InterruptTest, AWaitThatTheProgramEndsMayBeMadeAgain) {
  Start();
  link_->waits_in = WaitingLink::kAwaitWeights;
  EXPECT_EQ(client_.Wait(0), interrupted_);
  EXPECT_EQ(client_.WaitAll(), interrupted_);
  ASSERT_EQ(client_.BeginStep(1), absl::OkStatus());
  EXPECT_EQ(client_.Publish(0), interrupted_);
  EXPECT_EQ(client_.FinishStep(), interrupted_);
  link_->waits_in = WaitingLink::kNone;
  EXPECT_EQ(client_.WaitAll(), absl::OkStatus());
  EXPECT_EQ(client_.Publish(0), absl::OkStatus());
  link_->waits_in = WaitingLink::kNone;
  EXPECT_EQ(client_.FinishStep(), absl::OkStatus());
  EXPECT_EQ(link_->published, 4u) << "each chunk once in each of the two steps";
  EXPECT_EQ(client_.Finish(), absl::OkStatus());
}

TEST_F(InterruptTest, AfterACallThatWasDoneInPartEveryCallIsOutOfOrder) {
  Start();
  link_->waits_in = WaitingLink::kPublish;
  ASSERT_EQ(client_.BeginStep(1), absl::OkStatus());
  EXPECT_EQ(client_.Publish(0), interrupted_);
  EXPECT_EQ(client_.FinishStep().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_.Wait(0).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InterruptTest, StartEndsAndCannotBeMadeAgain) {
  link_->waits_in = WaitingLink::kStart;
  EXPECT_EQ(client_.Start({}), interrupted_);
  EXPECT_EQ(client_.Start({}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InterruptTest, FinishEnds) {
  Start();
  link_->waits_in = WaitingLink::kFinish;
  EXPECT_EQ(client_.Finish(), interrupted_);
}

TEST_F(InterruptTest, TheProgramIsAskedEvery50MsHoweverOftenTheLinkAsks) {
  Start();
  interrupts_at_ = 5;
  link_->waits_in = WaitingLink::kAwaitWeights;
  const absl::Time begin = absl::Now();
  EXPECT_EQ(client_.Wait(0), interrupted_);
  EXPECT_EQ(asked_, 5);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(4 * 50));
}

constexpr absl::Time kBegin = absl::UnixEpoch();

proto::Job JobWith(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

absl::Time At(int ms) { return kBegin + absl::Milliseconds(ms); }

TEST(StepClock, ASlowNodeStandsStillForItsComputationWithoutWaits) {
  const proto::Job job = JobWith("program {} debug { delays { node: 1 slow: 4 } }");
  StepClock clock(job, 1, 2);
  clock.Begin(kBegin);
  clock.AddWait(absl::Milliseconds(30));
  EXPECT_EQ(clock.EndComputation(0, At(40)), absl::Milliseconds(30));
  clock.EndStep(At(70));
  EXPECT_EQ(clock.EndComputation(1, At(75)), absl::Milliseconds(15));
  StepClock other(job, 0, 0);
  other.Begin(kBegin);
  EXPECT_EQ(other.EndComputation(0, At(40)), absl::ZeroDuration());
}

TEST(StepClock, ModelsOfTheZooDelayThemselves) {
  StepClock clock(JobWith("model {} debug { delays { slow: 4 } }"), 0, 0);
  clock.Begin(kBegin);
  EXPECT_EQ(clock.EndComputation(0, At(40)), absl::ZeroDuration());
}

TEST(StepClock, WhatIsMeasuredBetweenStepsIsNoComputationAndNoTraining) {
  StepClock clock(JobWith("program {} debug { delays { slow: 2 } }"), 0, 0);
  EXPECT_EQ(clock.TrainedSeconds(kBegin), 0);
  clock.Begin(kBegin);
  clock.EndStep(At(100));
  clock.EndMeasurement(At(600));
  EXPECT_EQ(clock.EndComputation(1, At(700)), absl::Milliseconds(100));
  EXPECT_EQ(clock.TrainedSeconds(At(700)), 0.2);
}

Tensor TensorSetNamed(const std::string& name, std::vector<uint64_t> shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  return tensor;
}

std::vector<uint32_t> Publish(StepBook* book, int tensor) {
  std::vector<ChunkId> complete;
  book->Publish(tensor, &complete);
  std::vector<uint32_t> values;
  for (ChunkId chunk : complete) values.push_back(chunk.value());
  return values;
}

TEST(TensorSetTest, TensorsLieBackToBackInOrderOfRegistration) {
  TensorSet tensors;
  EXPECT_EQ(*tensors.Add(TensorSetNamed("b", {3})), 0);
  EXPECT_EQ(*tensors.Add(TensorSetNamed("w", {2, 5})), 1);
  EXPECT_EQ(*tensors.Add(TensorSetNamed("scalar", {})), 2);
  EXPECT_EQ(tensors.elements(), 14u);
  proto::Layout layout = tensors.Layout();
  EXPECT_TRUE(ValidateLayout(layout).ok()) << ValidateLayout(layout);
  EXPECT_EQ(layout.segments(1).offset(), 3u);
  EXPECT_EQ(layout.segments(2).offset(), 13u);
}

TEST(TensorSetTest, BadTensorsAreRefusedByName) {
  TensorSet tensors;
  EXPECT_EQ(tensors.Add(TensorSetNamed("", {1})).status().code(),
            absl::StatusCode::kInvalidArgument);
  absl::Status empty = tensors.Add(TensorSetNamed("conv", {4, 0})).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(empty.ToString().find("conv"), std::string::npos);
  const uint64_t huge = uint64_t{1} << 33;
  EXPECT_FALSE(tensors.Add(TensorSetNamed("huge", {huge, huge})).ok());
  Tensor half = TensorSetNamed("half", {1});
  float x = 0;
  half.weights = &x;
  EXPECT_FALSE(tensors.Add(half).ok());
  Tensor negative = TensorSetNamed("negative", {1});
  negative.lr_multiplier = -1;
  EXPECT_FALSE(tensors.Add(negative).ok());
  EXPECT_EQ(tensors.size(), 0);
}

TEST(StepBookTest, AChunkIsCompleteOnceAllTensorsThatReachIntoItArePublished) {
  TensorSet tensors;
  ASSERT_TRUE(tensors.Add(TensorSetNamed("a", {3})).ok());   // chunk 0
  ASSERT_TRUE(tensors.Add(TensorSetNamed("b", {10})).ok());  // chunks 0 to 3
  ASSERT_TRUE(tensors.Add(TensorSetNamed("c", {1})).ok());   // chunk 3
  StepBook book(tensors, ChunkMap(14, 4));
  for (int step = 0; step < 2; ++step) {
    book.Begin();
    EXPECT_EQ(Publish(&book, 1), (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(Publish(&book, 2), (std::vector<uint32_t>{3}));
    EXPECT_FALSE(book.published(0));
    EXPECT_EQ(Publish(&book, 0), (std::vector<uint32_t>{0}));
    EXPECT_TRUE(book.published(0));
  }
}

absl::Status Check(const std::string& name, double value = 1) {
  return CheckValues({{name, value}});
}

TEST(ReportValues, AreFiniteNumbersUnderPlainNames) {
  EXPECT_EQ(CheckValues({}), absl::OkStatus());
  EXPECT_EQ(Check("val/bleu-4.cased_2", -1e300), absl::OkStatus());
  EXPECT_EQ(Check(std::string(64, 'x')), absl::OkStatus());
}

TEST(ReportValues, WhatIsWrongIsSaidByName) {
  const std::string rule = ": a name has 1 to 64 letters, digits and characters of \"._-/\"";
  const std::string long_name(65, 'x');
  EXPECT_EQ(Check(""), absl::InvalidArgumentError(absl::StrCat("value \"\"", rule)));
  EXPECT_EQ(Check("a b"), absl::InvalidArgumentError(absl::StrCat("value \"a b\"", rule)));
  EXPECT_EQ(Check("a\n"), absl::InvalidArgumentError(absl::StrCat("value \"a\\n\"", rule)));
  EXPECT_EQ(Check(long_name),
            absl::InvalidArgumentError(absl::StrCat("value \"", long_name, "\"", rule)));
  EXPECT_EQ(Check("bleu", NAN), absl::InvalidArgumentError("value \"bleu\": is NaN"));
  EXPECT_EQ(Check("bleu", -INFINITY), absl::InvalidArgumentError("value \"bleu\": is infinite"));
  EXPECT_EQ(Check("test_loss"), absl::InvalidArgumentError(
                                    "value \"test_loss\": has a field of its own in the report"));
}

TEST(ReportValues, AReportHasAtMost32) {
  std::map<std::string, double> values;
  for (int i = 0; i < 32; ++i) values[absl::StrCat("v", i)] = i;
  EXPECT_EQ(CheckValues(values), absl::OkStatus());
  values["one-more"] = 0;
  EXPECT_EQ(CheckValues(values), absl::InvalidArgumentError("33 values in a report, at most 32"));
}

TEST(ReportValues, AStateIsCopiedWithLongTextsCut) {
  Report report;
  report.state = State{
      .step = 7,
      .items = {{"lr", 1, "0.5"}, {std::string(300, 'n'), 2, std::string(100, 'v')}, {"w", 3, ""}}};
  proto::RankReport copied;
  CopyReport(report, &copied);
  EXPECT_EQ(copied.state().step(), 7);
  ASSERT_EQ(copied.state().items_size(), 3);
  EXPECT_EQ(copied.state().items(0).value(), "0.5");
  EXPECT_EQ(copied.state().items(1).name(), std::string(256, 'n'));
  EXPECT_EQ(copied.state().items(1).value(), std::string(64, 'v'));
  EXPECT_EQ(copied.state().items(2).checksum(), 3);
  report.state->items[1].value = std::string(63, 'v') + "\xc3\xa9";  // an e with an accent
  CopyReport(report, &copied);
  EXPECT_EQ(copied.state().items(4).value(), std::string(63, 'v'));
  report.state.reset();
  copied.Clear();
  CopyReport(report, &copied);
  EXPECT_FALSE(copied.has_state());
}

// The link of a rank that has learned of some changes while it waited for the others to end.
class LateLink final : public RankLink {
 public:
  absl::StatusOr<ArenaView> Allocate(const proto::Layout&) override { return ArenaView(); }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override { return RunFacts(); }
  absl::StatusOr<bool> LearnViews(uint64_t, bool, Views*) override {
    ++asked;
    return true;
  }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return absl::OkStatus(); }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return absl::OkStatus(); }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t) override { return absl::OkStatus(); }
  absl::Status Finish(uint64_t) override { return absl::OkStatus(); }
  std::vector<proto::ViewChange> TakeLateChanges() override { return std::exchange(late, {}); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  std::vector<proto::ViewChange> late;
  int asked = 0;
};

// Rank 2, the first one of node 1, of three nodes with two ranks each.
class RankViewsTest : public testing::Test {
 protected:
  RankViewsTest() {
    launch_.set_rank(2);
    proto::JobRecord* const record = launch_.mutable_record();
    record->mutable_job()->set_ranks(6);
    record->mutable_job()->set_ranks_min(2);
    record->mutable_job()->set_on_loss(proto::Job::DROP);
    record->mutable_view()->set_number(1);
    for (uint32_t node = 0; node < 3; ++node) {
      proto::LogicalNode* const of = record->mutable_view()->add_nodes();
      of->set_node(node);
      of->set_first_rank(2 * node);
      of->set_ranks(2);
    }
  }
  static proto::ViewChange Loses(uint32_t node, uint32_t number, uint64_t at_clock) {
    proto::ViewChange change;
    change.set_number(number);
    change.set_at_clock(at_clock);
    change.add_left(node);
    return change;
  }

  proto::Launch launch_;
  LateLink link_;
};

TEST_F(RankViewsTest, WhoDiesWithTheLastStepsIsNotAmongThoseThatEndTheJob) {
  RankViews views(launch_, &link_);
  ASSERT_TRUE(views.Begin({}).ok());
  EXPECT_EQ(views.At(40)->rank, 2u) << "node 0 is there when this is asked";
  link_.late = {Loses(0, 2, 41), Loses(2, 3, 45)};
  ASSERT_TRUE(views.End(40).ok());
  const int asked = link_.asked;
  const StepRanks left = *views.At(40);
  EXPECT_EQ(left.rank, 0u);
  EXPECT_EQ(left.ranks, 2u);
  EXPECT_TRUE(left.makes_it);
  EXPECT_EQ(views.At(39)->rank, 2u) << "steps that were made stay whose they were";
  EXPECT_EQ(link_.asked, asked) << "the aggregator may be gone";
}

TEST_F(RankViewsTest, WhoLeavesByPlanAfterTheLastStepEndsTheJobAsItsStepsWere) {
  launch_.mutable_record()->mutable_job()->clear_on_loss();
  RankViews views(launch_, &link_);
  ASSERT_TRUE(views.Begin({}).ok());
  link_.late = {Loses(0, 2, 41)};
  ASSERT_TRUE(views.End(40).ok());
  EXPECT_EQ(views.At(40)->rank, 2u);
}

TEST_F(RankViewsTest, ALateChangeThatFitsNoJobIsAnError) {
  RankViews views(launch_, &link_);
  ASSERT_TRUE(views.Begin({}).ok());
  link_.late = {Loses(7, 2, 41)};
  EXPECT_EQ(views.End(40).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace

}  // namespace strata::client
