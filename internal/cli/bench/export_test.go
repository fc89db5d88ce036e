package bench

// Medians is medians, for its test.
var Medians = medians

// NewReport is a report of a suite with figures.
func NewReport(suite Suite, figures []Figure) Report {
	return Report{Surface: suite.name, Figures: figures, suite: suite}
}
