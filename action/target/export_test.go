package target

// Keep is how much output is kept, for tests from outside.
const Keep = keep
