// SPDX-License-Identifier: Apache-2.0
// main() of the tests that run on any transport. On several processes they agree after each test on
// whether it has passed, and stop together if they cannot.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm::test {
namespace {

class Agreement final : public testing::EmptyTestEventListener {
 private:
  // At once, since this process may not get as far as the agreement.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || process().rank == 0) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", process().rank,
                 result.file_name() ? result.file_name() : "", result.line_number(),
                 result.message());
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    try {
      const auto failed = gather(test.result()->Failed() ? "failed" : "");
      for (std::size_t rank = 0; rank < failed.size(); ++rank)
        if (!failed[rank].empty() && !test.result()->Failed())
          ADD_FAILURE() << "failed on rank " << rank;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "[rank %d] no agreement after %s.%s: %s\n", process().rank,
                   test.test_suite_name(), test.name(), error.what());
      std::_Exit(EXIT_FAILURE);  // the launcher then ends the other processes
    }
  }
};

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (on_threads()) return RUN_ALL_TESTS();

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (process().rank > 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Agreement);  // owned by GoogleTest
  const int status = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  if (process().rank == 0)
    std::printf("%s, %d processes: %d passed, %d skipped; %d numbers of ranks left out of loops\n",
                std::string(transport()).c_str(), process().size, tests.successful_test_count(),
                tests.skipped_test_count(), left_out());
  if (tests.successful_test_count() > 0) return status;
  std::fprintf(stderr, "[rank %d] no test has passed\n", process().rank);
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace ringspan::comm::test

int main(int argc, char** argv) {
  try {
    return ringspan::comm::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
