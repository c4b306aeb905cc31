package abidetest_test

import _ "github.com/abidehq/abide/internal/workertest" // ABIDE_TEST_EXECUTOR=remote
