#include "worker/exchange/all_reduce/reduce_plan.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace strata::worker {
namespace {

using Kind = ReduceStep::Kind;
using proto::AllReduce;

// Executes all nodes' plans with terms instead of numbers: for a slice, "(((1+2)+3)+0)".
class Terms {
 public:
  Terms(AllReduce::Algorithm algorithm, uint32_t nodes) {
    for (uint32_t i = 0; i < nodes; ++i) {
      plans_.push_back(MakeReducePlan(algorithm, nodes, i));
      sums_.emplace_back(plans_[0].slices, std::to_string(i));
      weights_.emplace_back(plans_[0].slices);
    }
  }

  // Returns every node's final weights, by slice. Empty if it does not terminate.
  std::vector<std::vector<std::string>> Run() {
    std::vector<size_t> at(plans_.size(), 0);
    bool moved = true;
    while (moved) {
      moved = false;
      for (uint32_t i = 0; i < plans_.size(); ++i) {
        while (at[i] < plans_[i].steps.size() && Do(i, plans_[i].steps[at[i]])) {
          ++at[i];
          moved = true;
        }
      }
    }
    for (uint32_t i = 0; i < plans_.size(); ++i) {
      if (at[i] < plans_[i].steps.size()) return {};
    }
    return weights_;
  }

  size_t messages() const { return messages_; }
  // Number of slices that the node sends.
  size_t sent(uint32_t node) const { return sent_.count(node) ? sent_.at(node) : 0; }
  const ReducePlan& plan(uint32_t node) const { return plans_[node]; }

 private:
  bool Do(uint32_t i, const ReduceStep& step) {
    auto& sums = sums_[i];
    auto& weights = weights_[i];
    if (step.kind == Kind::kSendSum || step.kind == Kind::kSendWeights) {
      const auto& from = step.kind == Kind::kSendSum ? sums : weights;
      wire_[{i, step.peer}].push_back(
          {from.begin() + step.slices.begin, from.begin() + step.slices.end});
      ++messages_;
      sent_[i] += step.slices.end - step.slices.begin;
      return true;
    }
    if (step.kind == Kind::kUpdate) {
      for (uint32_t k = step.slices.begin; k < step.slices.end; ++k) weights[k] = sums[k];
      return true;
    }
    auto& queue = wire_[{step.peer, i}];
    if (queue.empty()) return false;
    const std::vector<std::string> came = queue.front();
    queue.pop_front();
    EXPECT_EQ(came.size(), step.slices.end - step.slices.begin);
    for (uint32_t k = 0; k < came.size(); ++k) {
      const uint32_t slice = step.slices.begin + k;
      if (step.kind == Kind::kTakeWeights) {
        weights[slice] = came[k];
      } else {
        sums[slice] = Sum(came[k], sums[slice]);
      }
    }
    return true;
  }

  // A sum of two is the same either way round.
  static std::string Sum(const std::string& a, const std::string& b) {
    return a < b ? "(" + a + "+" + b + ")" : "(" + b + "+" + a + ")";
  }

  std::vector<ReducePlan> plans_;
  std::vector<std::vector<std::string>> sums_, weights_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::vector<std::string>>> wire_;
  std::map<uint32_t, size_t> sent_;
  size_t messages_ = 0;
};

// Expects every node exactly once.
void ExpectWhole(const std::string& term, uint32_t nodes) {
  std::vector<int> seen(nodes, 0);
  std::string number;
  for (const char c : term + " ") {
    if (c >= '0' && c <= '9') {
      number += c;
    } else if (!number.empty()) {
      ++seen.at(std::stoul(number));
      number.clear();
    }
  }
  EXPECT_EQ(seen, std::vector<int>(nodes, 1)) << term;
}

TEST(ReducePlan, EveryNodeGetsTheSumOfAllInOneOrder) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    for (uint32_t nodes = 2; nodes <= 17; ++nodes) {
      Terms terms(algorithm, nodes);
      const auto weights = terms.Run();
      ASSERT_EQ(weights.size(), nodes) << "locked up";
      for (const std::string& term : weights[0]) ExpectWhole(term, nodes);
      for (const auto& other : weights) EXPECT_EQ(other, weights[0]);
    }
  }
}

TEST(ReducePlan, ARingSendsTheLeastThatIsPossible) {
  for (uint32_t nodes = 2; nodes <= 9; ++nodes) {
    Terms terms(AllReduce::RING, nodes);
    terms.Run();
    EXPECT_EQ(terms.messages(), 2 * (nodes - 1) * nodes);
    for (uint32_t i = 0; i < nodes; ++i) EXPECT_EQ(terms.sent(i), 2 * (nodes - 1));
    EXPECT_EQ(terms.plan(1).Own(), (SliceRange{1, 2}));
  }
}

TEST(ReducePlan, ARingAddsASliceFromTheNodeAfterItsOwnerOn) {
  Terms terms(AllReduce::RING, 4);
  const auto weights = terms.Run();
  EXPECT_EQ(weights[0][0],
            "(("
            "(1+2)+3)+0)");
  EXPECT_EQ(weights[0][2], "(((0+3)+1)+2)");
}

TEST(ReducePlan, HalvingAndDoublingSendsTheLeastInAsFewMessagesAsPossible) {
  Terms terms(AllReduce::HALVING_DOUBLING, 8);
  terms.Run();
  EXPECT_EQ(terms.messages(), 2 * 3 * 8);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(terms.sent(i), 2 * 7);
}

TEST(ReducePlan, HalvingAndDoublingAddsAlongTheBalancedTree) {
  for (const auto& [nodes, tree] :
       std::map<uint32_t, std::string>{{2, "(0+1)"},
                                       {3, "((0+1)+2)"},
                                       {4, "((0+1)+(2+3))"},
                                       {6, "(((0+1)+(2+3))+(4+5))"},
                                       {8, "(((0+1)+(2+3))+((4+5)+(6+7)))"}}) {
    Terms terms(AllReduce::HALVING_DOUBLING, nodes);
    const auto weights = terms.Run();
    for (const std::string& term : weights[0]) EXPECT_EQ(term, tree);
  }
}

}  // namespace
}  // namespace strata::worker
