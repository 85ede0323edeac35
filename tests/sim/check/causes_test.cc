#include "tests/sim/check/causes.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace strata::sim {
namespace {

constexpr uint32_t kJob = 1;

// Shard 0 of the job has a copy on s1, and will get a second one on s0 in generation 7.
Causes WithNewCopy() {
  Causes causes;
  EXPECT_EQ(causes.OnHomes(kJob, {{.first = "s1", .generation = 6}}), "");
  EXPECT_EQ(
      causes.OnHomes(kJob, {{.first = "s1", .second = "s0", .is_partial = true, .generation = 7}}),
      "");
  return causes;
}

std::string GiveUp(Causes* causes) {
  return causes->OnHomes(kJob, {{.first = "s1", .generation = 8}});
}

TEST(CausesTest, ACopyThatItsServerWasNeverToldOfMayBeGivenUpOnceTheServerIsBackWithoutIt) {
  Causes causes = WithNewCopy();
  causes.OnHeld("s0", {});
  EXPECT_EQ(GiveUp(&causes), "");
}

TEST(CausesTest, ACopyIsNotGivenUpWhileItsServerHasSaidNothing) {
  Causes causes = WithNewCopy();
  causes.OnHeld("s2", {});
  EXPECT_EQ(GiveUp(&causes),
            "job 1 shard 0 lay on s1 and s0 (partial) in generation 7, now on s1 and  in "
            "generation 8");
}

TEST(CausesTest, ACopyThatItsServerWasToldOfIsNotGivenUpWithoutACause) {
  Causes causes = WithNewCopy();
  causes.OnCopyAnnounced(kJob, 0, 7);
  causes.OnHeld("s0", {});
  EXPECT_NE(GiveUp(&causes), "");
}

TEST(CausesTest, AServerThatHoldsTheJobIsToldOfTheCopyAgainAndKeepsIt) {
  Causes causes = WithNewCopy();
  causes.OnHeld("s0", {kJob});
  EXPECT_NE(GiveUp(&causes), "");
}

TEST(CausesTest, ACopyOnALostServerMayBeGivenUp) {
  Causes causes = WithNewCopy();
  causes.OnCopyAnnounced(kJob, 0, 7);
  causes.OnLost("server s0");
  EXPECT_EQ(GiveUp(&causes), "");
}

// Shard 0 has complete copies on s1 and s0.
Causes WithTwoCopies() {
  Causes causes;
  EXPECT_EQ(causes.OnHomes(kJob, {{.first = "s1", .second = "s0", .generation = 7}}), "");
  return causes;
}

// The same, while another copy is filled on s2 to replace the one on s0 or on s1.
Causes::Home FilledNext(bool replaces_first) {
  return {.first = "s1",
          .second = "s0",
          .generation = 7,
          .next = "s2",
          .next_generation = 8,
          .replaces_first = replaces_first};
}

// The same once that copy is dropped.
const Causes::Home kDropped = {
    .first = "s1", .second = "s0", .generation = 7, .next_generation = 8};

TEST(CausesTest, ACopyIsFilledBesidesOnlyForOneOnADrainedServer) {
  for (const bool replaces_first : {false, true}) {
    Causes causes = WithTwoCopies();
    causes.OnDrainAsked(replaces_first ? "s0" : "s1", /*undo=*/false);
    EXPECT_NE(causes.OnHomes(kJob, {FilledNext(replaces_first)}), "");
    causes = WithTwoCopies();
    causes.OnDrainAsked(replaces_first ? "s1" : "s0", /*undo=*/false);
    EXPECT_EQ(causes.OnHomes(kJob, {FilledNext(replaces_first)}), "");
  }
}

TEST(CausesTest, OneThatItsServerWasNeverToldOfMayBeDroppedOnceTheServerIsBackWithoutIt) {
  for (const bool was_told : {false, true}) {
    Causes causes = WithTwoCopies();
    causes.OnDrainAsked("s0", /*undo=*/false);
    EXPECT_EQ(causes.OnHomes(kJob, {FilledNext(/*replaces_first=*/false)}), "");
    if (was_told) causes.OnCopyAnnounced(kJob, 0, 8);
    causes.OnHeld("s2", {});
    EXPECT_EQ(causes.OnHomes(kJob, {kDropped}).empty(), !was_told);
  }
}

TEST(CausesTest, TheCopyFilledBesidesTakesThePlaceThatItWasFilledFor) {
  for (const bool replaces_first : {false, true}) {
    Causes causes = WithTwoCopies();
    causes.OnDrainAsked(replaces_first ? "s1" : "s0", /*undo=*/false);
    EXPECT_EQ(causes.OnHomes(kJob, {FilledNext(replaces_first)}), "");
    causes.OnWhole(kJob, 0, 8);
    Causes other = causes;
    EXPECT_EQ(causes.OnHomes(kJob, {{.first = replaces_first ? "s0" : "s1",
                                     .second = "s2",
                                     .generation = 8,
                                     .next_generation = 8}}),
              "");
    EXPECT_NE(other.OnHomes(kJob, {{.first = replaces_first ? "s1" : "s0",
                                    .second = "s2",
                                    .generation = 8,
                                    .next_generation = 8}}),
              "");
  }
}

TEST(CausesTest, TheCopyFilledBesidesTakesAPlaceOnlyOnceItIsSaidToBeWhole) {
  Causes causes = WithTwoCopies();
  causes.OnDrainAsked("s0", /*undo=*/false);
  EXPECT_EQ(causes.OnHomes(kJob, {FilledNext(false)}), "");
  causes.OnWhole(kJob, 0, 7);
  causes.OnWhole(kJob, 1, 8);
  const Causes::Home taken = {.first = "s1", .second = "s2", .generation = 8, .next_generation = 8};
  Causes whole = causes;
  EXPECT_NE(causes.OnHomes(kJob, {taken}), "");
  whole.OnWhole(kJob, 0, 8);
  EXPECT_EQ(whole.OnHomes(kJob, {taken}), "");
}

TEST(CausesTest, TheCopyFilledBesidesIsDroppedOnlyByWhatWasDoneToOneOfTheThree) {
  Causes before = WithTwoCopies();
  before.OnDrainAsked("s0", /*undo=*/false);
  EXPECT_EQ(before.OnHomes(kJob, {FilledNext(false)}), "");
  before.OnDrainDone("s0", /*undo=*/false);
  const auto drops_after = [&](const std::function<void(Causes*)>& done) {
    Causes causes = before;
    done(&causes);
    return causes.OnHomes(kJob, {kDropped}).empty();
  };
  EXPECT_FALSE(drops_after([](Causes*) {}));
  EXPECT_FALSE(drops_after([](Causes* causes) { causes->OnLost("server s3"); }));
  EXPECT_FALSE(drops_after([](Causes* causes) { causes->OnRefusedCopy(kJob, 0, 7); }));
  EXPECT_FALSE(drops_after([](Causes* causes) { causes->OnDrainAsked("s2", /*undo=*/true); }));
  for (const char* server : {"server s0", "server s1", "server s2"}) {
    EXPECT_TRUE(drops_after([&](Causes* causes) { causes->OnLost(server); })) << server;
  }
  EXPECT_TRUE(drops_after([](Causes* causes) { causes->OnRefusedCopy(kJob, 0, 8); }));
  EXPECT_TRUE(drops_after([](Causes* causes) { causes->OnDrainAsked("s0", /*undo=*/true); }));
  EXPECT_TRUE(drops_after([](Causes* causes) { causes->OnDrainAsked("s2", /*undo=*/false); }));
}

TEST(CausesTest, NoCopyIsFilledBesidesOnceTheServerIsBackInService) {
  Causes causes = WithTwoCopies();
  causes.OnDrainAsked("s0", /*undo=*/false);
  causes.OnDrainDone("s0", /*undo=*/false);
  causes.OnDrainAsked("s0", /*undo=*/true);
  Causes asked = causes;  // the coordinator may not have received it
  EXPECT_EQ(asked.OnHomes(kJob, {FilledNext(false)}), "");
  causes.OnDrainDone("s0", /*undo=*/true);
  EXPECT_NE(causes.OnHomes(kJob, {FilledNext(false)}), "");
}

TEST(CausesTest, AGenerationIsNotGivenOutAgainAfterTheCopyFilledBesidesIsDropped) {
  Causes causes = WithTwoCopies();
  causes.OnDrainAsked("s0", /*undo=*/false);
  EXPECT_EQ(causes.OnHomes(kJob, {FilledNext(false)}), "");
  causes.OnRefusedCopy(kJob, 0, 8);
  EXPECT_EQ(causes.OnHomes(kJob, {kDropped}), "");
  causes.OnLost("server s0");
  Causes other = causes;
  EXPECT_EQ(causes.OnHomes(kJob, {{.first = "s1", .generation = 9, .next_generation = 8}}), "");
  EXPECT_NE(other.OnHomes(kJob, {{.first = "s1", .generation = 8, .next_generation = 8}}), "");
}

}  // namespace
}  // namespace strata::sim
