package bench

// Medians is medians, for its test.
var Medians = medians
