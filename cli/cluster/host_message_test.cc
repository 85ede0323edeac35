#include "cli/cluster/host_message.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

TEST(HostMessage, ComesBackAsItWas) {
  HostMessage message;
  message.kind = HostMessage::Kind::kStart;
  message.title = "worker \"n1\"";
  message.args = {"worker", "", "two words\n"};
  message.text = "a\tb";
  message.signal = SIGTERM;
  const std::string line = EncodeHostMessage(message);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  auto decoded = DecodeHostMessage(line);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->kind, message.kind);
  EXPECT_EQ(decoded->title, message.title);
  EXPECT_EQ(decoded->args, message.args);
  EXPECT_EQ(decoded->text, message.text);
  EXPECT_EQ(decoded->signal, SIGTERM);
}

TEST(HostMessage, TextThatIsNotUtf8IsSentWithReplacements) {
  HostMessage message;
  message.kind = HostMessage::Kind::kEnded;
  message.text = "bad \xff byte";
  auto decoded = DecodeHostMessage(EncodeHostMessage(message));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->text, "bad \xEF\xBF\xBD byte");
}

TEST(HostMessage, WhatIsNoMessageIsNone) {
  for (const char* line :
       {"", "Welcome to n1", "{}", "[1]", "{\"kind\":1}", "{\"kind\":\"reboot\"}",
        "{\"kind\":\"start\",\"args\":[1]}", "{\"kind\":\"up\""}) {
    EXPECT_EQ(DecodeHostMessage(line), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace strata::cli
