#include "worker/aggregator/core/node_rows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/aggregator/core/rank_watch.h"

namespace strata::worker {
namespace {

using wire::Op;

constexpr uint32_t kRanksWithRows = 3;

// One shard with one bucket; ranks write to their slots by hand.
class NodeRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    CoreOptions options;
    options.record.mutable_view()->add_nodes()->set_ranks(kRanksWithRows);
    *options.record.mutable_layout()->add_tables() =
        rows::ToProto({.name = "items", .columns = 2, .capacity = 100});
    options.record.mutable_placement()->add_shard_endpoints("tcp://s0:1");
    options.record.mutable_placement()->add_shard_of_bucket(0);
    core_ = *RowsCore::Create(options);
    rows_ = std::make_unique<NodeRows>(RankId(4), memory_.get(), core_.get());
    ASSERT_TRUE(core_->OnLinkEvent(LinkEvent::Start(), now_, &actions_).ok());
    ASSERT_TRUE(
        core_->OnLinkEvent(LinkEvent::Connected(LinkId(0), connection_), now_, &actions_).ok());
    Hear({.op = Op::kHelloOk});
    actions_.wire.clear();
  }

  void Hear(const wire::Header& header, const std::vector<float>& values = {}) {
    wire::Frame frame{.header = header,
                      .payload = Bytes(nullptr, reinterpret_cast<const std::byte*>(values.data()),
                                       values.size() * sizeof(float))};
    ASSERT_TRUE(core_->OnLinkEvent(LinkEvent::Frame(connection_, frame), now_, &actions_).ok());
    rows_->GiveFound();
  }
  RowSlot& Slot(uint32_t rank) { return memory_->row_slot(rank); }
  bool IsAnswered(uint32_t rank) { return Slot(rank).asked.load() == Slot(rank).answered.load(); }
  void Ask(uint32_t rank, RowSlot::Ask ask, const std::vector<uint64_t>& ids = {},
           float gradient = 0, float rate = 0.5f) {
    RowSlot& slot = Slot(rank);
    slot.ask = ask;
    slot.table = 0;
    slot.step = steps_[rank];
    slot.samples = 2;
    slot.rate = rate;
    slot.rows = static_cast<uint32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), slot.ids());
    std::fill_n(slot.values(slot.rows), ids.size() * 2, gradient);
    slot.asked.fetch_add(1);
    if (ask == RowSlot::Ask::kEnd) ++steps_[rank];
    Look();
  }
  void Look() {
    const absl::StatusOr<bool> any = rows_->Look(now_, &actions_);
    if (status_.ok()) status_ = any.status();
  }
  std::vector<wire::Frame> Sent() {
    std::vector<wire::Frame> sent;
    for (const WireAction& action : std::exchange(actions_.wire, {})) sent.push_back(action.frame);
    return sent;
  }

  const absl::Time now_ = absl::UnixEpoch();
  const transport::ConnectionId connection_{1};
  const std::unique_ptr<NodeMemory> memory_ =
      *NodeMemory::Create(1, kRanksWithRows, /*has_tables=*/true);
  std::unique_ptr<RowsCore> core_;
  std::unique_ptr<NodeRows> rows_;
  CoreActions actions_;
  std::vector<uint64_t> steps_ = std::vector<uint64_t>(kRanksWithRows);
  absl::Status status_;
};

TEST_F(NodeRowsTest, AStepGoesOutOnceAllRanksHaveEndedItWithEachRowOnce) {
  EXPECT_TRUE(rows_->is_idle());
  Ask(0, RowSlot::Ask::kAdd, {3, 8}, 1);
  Ask(0, RowSlot::Ask::kEnd);
  Ask(2, RowSlot::Ask::kAdd, {8}, 10);
  Ask(2, RowSlot::Ask::kAdd, {9}, 100);
  Ask(2, RowSlot::Ask::kEnd);
  EXPECT_FALSE(rows_->is_idle());
  EXPECT_TRUE(Sent().empty());
  // A rank's request for the next step waits in its slot.
  Ask(0, RowSlot::Ask::kLookUp, {3});
  EXPECT_FALSE(IsAnswered(0));
  EXPECT_TRUE(Sent().empty());
  Ask(1, RowSlot::Ask::kEnd);
  const std::vector<wire::Frame> sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.sample_count, 6u);
  const auto rows = wire::DecodedRows::Decode(sent[0].payload, 6, {{2}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const wire::RowsSection& section = rows->pushed()[0];
  EXPECT_EQ(section.rate, 0.5f);
  EXPECT_EQ(std::vector<uint64_t>(section.ids.begin(), section.ids.end()),
            (std::vector<uint64_t>{3, 8, 9}));
  EXPECT_EQ(std::vector<float>(section.values, section.values + 6),
            (std::vector<float>{1, 1, 11, 11, 100, 100}));
  Look();
  EXPECT_TRUE(Sent().empty());  // the push is not answered
  Ask(1, RowSlot::Ask::kEnd);
  Ask(2, RowSlot::Ask::kEnd);
  Hear({.op = Op::kAnswer, .key_space = wire::KeySpace::kRows});
  const std::vector<wire::Frame> lookup = Sent();
  ASSERT_EQ(lookup.size(), 1u);
  Hear({.op = Op::kRows,
        .key_space = wire::KeySpace::kRows,
        .element_count = 2,
        .clock = lookup[0].header.clock},
       {1, 2});
  EXPECT_TRUE(IsAnswered(0));
  Ask(0, RowSlot::Ask::kAdd, {3}, 7);
  Ask(0, RowSlot::Ask::kEnd);
  EXPECT_EQ(Sent().at(0).header.clock, 1u);
  Hear({.op = Op::kAnswer, .key_space = wire::KeySpace::kRows, .clock = 1});
  EXPECT_TRUE(rows_->is_idle());
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(NodeRowsTest, RanksLookUpAtTheSameTime) {
  Ask(0, RowSlot::Ask::kLookUp, {1, 5});
  Ask(1, RowSlot::Ask::kLookUp, {7});
  const std::vector<wire::Frame> sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  wire::Header found = {.op = Op::kRows, .key_space = wire::KeySpace::kRows, .element_count = 2};
  found.clock = sent[1].header.clock;
  Hear(found, {70, 71});
  EXPECT_TRUE(IsAnswered(1));
  EXPECT_FALSE(IsAnswered(0));
  EXPECT_EQ(Slot(1).values(1)[1], 71.0f);
  found.clock = sent[0].header.clock;
  found.element_count = 4;
  Hear(found, {10, 11, 50, 51});
  EXPECT_TRUE(IsAnswered(0));
  EXPECT_EQ(Slot(0).values(2)[3], 51.0f);
}

TEST_F(NodeRowsTest, RanksWithDifferentRatesAreNamed) {
  Ask(0, RowSlot::Ask::kAdd, {3}, 1, 0.5f);
  Ask(2, RowSlot::Ask::kAdd, {3}, 1, 0.25f);
  for (uint32_t rank = 0; rank < kRanksWithRows; ++rank) Ask(rank, RowSlot::Ask::kEnd);
  EXPECT_EQ(status_.message(),
            "rank 6: table \"items\" has learning rate 0.25, that of rank 4 0.5");
}

TEST_F(NodeRowsTest, AGradientThatIsNotFiniteNamesRankTableAndId) {
  Ask(1, RowSlot::Ask::kAdd, {3}, std::numeric_limits<float>::infinity());
  EXPECT_EQ(status_.message(), "rank 5: table \"items\": id 3: the gradient of column 0 is inf");
}

TEST_F(NodeRowsTest, ARequestForWhatIsNotThereIsRefused) {
  Slot(1).table = 1;
  Slot(1).ask = RowSlot::Ask::kLookUp;
  Slot(1).rows = 4;
  Slot(1).asked.fetch_add(1);
  Look();
  EXPECT_EQ(status_.message(), "rank 5: asks for 4 rows of table 1");
}

TEST_F(NodeRowsTest, ARankThatAsksForRowsIsShownAsWaiting) {
  constexpr uint64_t kAllLanded = 1;
  EXPECT_FALSE(MeasureProgress(*memory_, 0, 1, kAllLanded).waiting);
  Ask(0, RowSlot::Ask::kLookUp, {3});
  EXPECT_TRUE(MeasureProgress(*memory_, 0, 1, kAllLanded).waiting);
  EXPECT_FALSE(MeasureProgress(*memory_, 1, 1, kAllLanded).waiting);
}

TEST_F(NodeRowsTest, ARanksGradientsBeyondTheBytesOfAStepAreRefusedByTable) {
  // The default: 16 MiB, 16 bytes a row of two columns.
  std::vector<uint64_t> ids(RowSlot::RowsMax(2));
  uint64_t next = 0;
  for (uint64_t rows = 0; rows + ids.size() <= (16 << 20) / 16; rows += ids.size()) {
    for (uint64_t& id : ids) id = next++;
    Ask(1, RowSlot::Ask::kAdd, ids, 1);
    ASSERT_TRUE(status_.ok()) << status_;
  }
  for (uint64_t& id : ids) id = next++;
  Ask(1, RowSlot::Ask::kAdd, ids, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  EXPECT_EQ(status_.message().substr(0, 23), "rank 5: table \"items\": ");
}

}  // namespace
}  // namespace strata::worker
