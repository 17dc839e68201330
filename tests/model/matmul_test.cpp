// SPDX-License-Identifier: Apache-2.0
#include "model/matmul.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/devices/host.hpp"
#include "model/random.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::model {
namespace {

constexpr std::int64_t kMost = 30;  // rows and columns

/// Integers, so that every order of additions gives the same.
Matrix integers(comm::Device& device, DType dtype, std::int64_t rows, std::int64_t columns,
                std::uint64_t seed) {
  const Matrix matrix(device, dtype, rows, columns);
  with_real(dtype, [&](auto zero) {
    using Real = decltype(zero);
    for (std::int64_t i = 0; i < matrix.elements(); ++i) {
      matrix.data<Real>()[i] = static_cast<Real>(random_below(7, seed, i));
    }
  });
  return matrix;
}

template <typename Real>
double at(const Factor& factor, std::int64_t row, std::int64_t column) {
  return factor.transposed ? factor.matrix.data<Real>(column)[row]
                           : factor.matrix.data<Real>(row)[column];
}

/// Elements of one random product that are not what the definition says.
std::int64_t wrong(comm::Device& device, DType dtype, std::uint64_t seed) {
  const auto size = [&](std::uint64_t index) { return random_below(kMost, seed, index); };
  const bool flip_a = size(3) % 2 == 0, flip_b = size(4) % 2 == 0, accumulate = size(5) % 2 == 0;
  const std::int64_t m = size(0), n = size(1), k = size(2);
  const Matrix a = integers(device, dtype, flip_a ? k : m, flip_a ? m : k, seed + 1);
  const Matrix b = integers(device, dtype, flip_b ? n : k, flip_b ? k : n, seed + 2);
  const Matrix before = integers(device, dtype, m, n, seed + 3), to = like(device, before);
  device.copy(to.slice(), before.slice());
  multiply({a, flip_a}, {b, flip_b}, to, accumulate);

  std::int64_t wrong = 0;
  with_real(dtype, [&](auto zero) {
    using Real = decltype(zero);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = accumulate ? before.data<Real>(i)[j] : 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += at<Real>({a, flip_a}, i, l) * at<Real>({b, flip_b}, l, j);
        }
        if (to.data<Real>(i)[j] != sum) ++wrong;
      }
    }
  });
  return wrong;
}

// Libraries that are built without threads of their own need not allow calls from several.
TEST(MatmulTest, RanksMultiplyAtOnceWhatTheDefinitionSays) {
  comm::LaunchOptions options;
  options.ranks = 5;
  EXPECT_TRUE(comm::test::on_every_rank(options, [](const comm::Communicator& comm) {
    std::int64_t faults = 0;
    for (std::uint64_t product = 0; product < 300; ++product) {
      for (const DType dtype : {DType::f32, DType::f64}) {
        faults += wrong(comm.device(), dtype, random_bits(comm.rank(), product));
      }
    }
    return faults == 0 ? testing::AssertionSuccess() : testing::AssertionFailure() << faults;
  }));
}

/// A matrix whose last element ends where memory may not be touched any more.
Matrix before_a_wall(DType dtype, std::int64_t rows, std::int64_t columns) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t bytes = rows * columns * attention::element_bytes(dtype);
  const std::int64_t readable = (bytes + page - 1) / page * page;
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, readable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(mprotect(memory + readable, page, PROT_NONE), 0);
  comm::Buffer buffer(memory, readable, [=] { munmap(memory, readable + page); });
  return Matrix(std::move(buffer), readable - bytes, dtype, rows, columns);
}

// Kernels that read whole vectors at the edge of a matrix can leave its memory: products are right,
// and now and then a program dies. Which kernels run depends on the processor; see CMakeLists.txt.
TEST(MatmulTest, ReadsNothingBeyondTheFactors) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (std::int64_t m = 1; m <= 24; ++m) {
      for (std::int64_t n = 1; n <= 24; ++n) {
        for (const std::int64_t k : {1, 2, 3, 5, 9}) {
          const Matrix to = before_a_wall(dtype, m, n);
          for (const bool flip_a : {false, true}) {
            for (const bool flip_b : {false, true}) {
              multiply({before_a_wall(dtype, flip_a ? k : m, flip_a ? m : k), flip_a},
                       {before_a_wall(dtype, flip_b ? n : k, flip_b ? k : n), flip_b}, to);
            }
          }
        }
      }
    }
  }
}

TEST(MatmulTest, RefusesShapesThatDoNotFit) {
  const auto device = comm::make_host_device();
  const Matrix a(*device, DType::f32, 2, 3), b(*device, DType::f32, 2, 5);
  try {
    multiply({a}, {b}, a);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "product of 2 x 3 and 2 x 5 into 2 x 3");
  }
  EXPECT_NO_THROW(multiply(transposed(a), {b}, Matrix(*device, DType::f32, 3, 5)));
}

}  // namespace
}  // namespace ringspan::model
