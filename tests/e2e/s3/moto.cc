#include "tests/e2e/s3/moto.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata {
namespace {

std::string PrintedBy(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  char block[4096];
  std::string printed;
  while (pipe != nullptr && fgets(block, sizeof block, pipe) != nullptr) printed += block;
  if (pipe != nullptr) pclose(pipe);
  return std::string(absl::StripAsciiWhitespace(printed));
}

// Reads a line; empty: none came in time.
std::string ReadLine(int fd) {
  constexpr int kWaitMs = 60'000;
  std::string line;
  pollfd readable = {fd, POLLIN, 0};
  char c = 0;
  while (poll(&readable, 1, kWaitMs) == 1 && read(fd, &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

}  // namespace

std::unique_ptr<Moto> Moto::Start() {
  const std::string home = PrintedBy("deploy/python_env.sh --print s3");
  const std::string python = home + "/bin/python";
  if (access(python.c_str(), X_OK) != 0) {
    ADD_FAILURE() << python << ": is not there; run deploy/python_env.sh s3";
    return nullptr;
  }
  int input[2], output[2];
  EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  const UniqueFd its_input(input[0]), its_output(output[1]), our_output(output[0]);
  std::unique_ptr<Moto> moto(new Moto);
  moto->its_input_ = UniqueFd(input[1]);
  const std::string log = ::testing::TempDir() + "/moto.log";
  auto process =
      Process::Start({.args = {python, "tests/e2e/s3/moto_server.py", ::testing::TempDir()},
                      .log_path = log,
                      .stdout_fd = its_output.get(),
                      .stdin_fd = its_input.get(),
                      .environment = {"PYTHONDONTWRITEBYTECODE=1"}});
  if (!process.ok()) {
    ADD_FAILURE() << process.status();
    return nullptr;
  }
  moto->process_ = *std::move(process);
  const std::string line = ReadLine(our_output.get());
  moto->facts_ = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (moto->facts_.is_object()) return moto;
  ADD_FAILURE() << "moto does not start: " << PrintedBy("tail -n 5 " + log);
  return nullptr;
}

Environment Moto::Variables(bool tls) const {
  return {{"AWS_ACCESS_KEY_ID", Fact("key_id")},
          {"AWS_SECRET_ACCESS_KEY", Fact("secret")},
          {"AWS_ENDPOINT_URL", Fact(tls ? "tls_url" : "url")},
          {"AWS_CA_BUNDLE", Fact("ca")}};
}

uint16_t Moto::port(bool tls) const {
  const std::string url = Fact(tls ? "tls_url" : "url");
  uint32_t port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(url.substr(url.rfind(':') + 1), &port));
  return static_cast<uint16_t>(port);
}

}  // namespace strata
