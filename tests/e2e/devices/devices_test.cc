// Accelerators in the output of the command line, with the fake device.
#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr char kFake[] = "kernels/cuda/libstrata_fake_device.so";

TEST(Devices, AreListedWithTheirMemory) {
  const CommandResult result =
      RunStrata({"devices", "--device-plugin", std::string(kFake) + ",devices=2,memory_mb=64"});
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("CUDA 13.0, driver for 13.0: 2 devices\n"));
  EXPECT_THAT(result.out, HasSubstr("1       fake device  sm_90         fake:01"));
  const CommandResult json = RunStrata(
      {"devices", "--json", "--device-plugin", std::string(kFake) + ",devices=2,memory_mb=64"});
  const auto parsed = nlohmann::json::parse(json.out);
  ASSERT_EQ(parsed.at("devices").size(), 2u);
  EXPECT_EQ(parsed.at("devices")[1].at("memory_bytes"), 64 << 20);
  EXPECT_EQ(parsed.at("devices")[1].at("free_bytes"), 64 << 20);
}

TEST(Devices, ThatThereAreNoneIsSaidWithTheReason) {
  const auto why = [](const std::string& plugin) {
    const CommandResult result = RunStrata({"devices", "--device-plugin", plugin});
    EXPECT_NE(result.status.code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]*\n"));
    return result.err;
  };
  const std::string fake = kFake;
  EXPECT_THAT(why("no/such.so"), HasSubstr("no/such.so: is not there; it is built where"));
  EXPECT_THAT(why(fake + ",devices=0"), HasSubstr("no CUDA-capable device is detected"));
  EXPECT_THAT(why(fake + ",driver=0"), HasSubstr("no driver for CUDA devices is installed"));
  EXPECT_THAT(why(fake + ",driver=12080"),
              HasSubstr("the driver is too old: it is for CUDA 12.8, this program needs 13.0"));
  EXPECT_THAT(why(fake + ",colour=1"), HasSubstr("colour=1: is no option of the fake device"));
  EXPECT_THAT(why("/etc/hostname"), HasSubstr("/etc/hostname"));
}

TEST(Devices, WithoutAPluginThatIsNoError) {
  const CommandResult result = RunStrata({"devices"});
  EXPECT_EQ(result.status.code, 0) << result.err;
  const auto json = nlohmann::json::parse(RunStrata({"devices", "--json"}).out);
  if (json.at("devices").empty()) {
    EXPECT_THAT(result.out, MatchesRegex("no devices: [^\n]*libstrata_cuda.so: [^\n]*\n"));
    EXPECT_THAT(result.out, HasSubstr(json.at("why_none").get<std::string>()));
  }
}

}  // namespace
}  // namespace strata::tests
