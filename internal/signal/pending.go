package signal

// maxPending is how many different wake-ups wait for one flush. Past it the ids of a topic collapse
// into the topic, so that nothing is lost but precision.
const maxPending = 4096

// maxTopics bounds the topics that collapsed; past it everything collapses into Wake{}.
const maxTopics = 16

// pending is the coalesced set of wake-ups that other processes have yet to hear of. Whatever was
// added is covered by what drain answers: by itself, by its topic, or by Wake{}. The zero value is
// an empty set. It is not safe for concurrent use.
type pending struct {
	ids    map[Wake]struct{}
	topics map[Topic]struct{} // each covers every id of its topic
	all    bool               // covers everything
}

func (p *pending) add(wake Wake) {
	_, covered := p.topics[wake.Topic]
	switch {
	case p.all || covered:
	case wake.Topic == "":
		*p = pending{all: true}
	case wake.ID == "":
		p.collapse(wake.Topic)
	default:
		p.addID(wake)
	}
}

func (p *pending) addID(wake Wake) {
	if _, known := p.ids[wake]; known {
		return
	}
	if len(p.ids) >= maxPending {
		p.collapse(wake.Topic)
		return
	}
	if p.ids == nil {
		p.ids = make(map[Wake]struct{})
	}
	p.ids[wake] = struct{}{}
}

func (p *pending) collapse(topic Topic) {
	if len(p.topics) >= maxTopics {
		*p = pending{all: true}
		return
	}
	if p.topics == nil {
		p.topics = make(map[Topic]struct{})
	}
	p.topics[topic] = struct{}{}
	for wake := range p.ids {
		if wake.Topic == topic {
			delete(p.ids, wake)
		}
	}
}

// drain answers the set and empties it.
func (p *pending) drain() []Wake {
	wakes := make([]Wake, 0, len(p.ids)+len(p.topics)+1)
	if p.all {
		wakes = append(wakes, Wake{})
	}
	for topic := range p.topics {
		wakes = append(wakes, Wake{Topic: topic})
	}
	for wake := range p.ids {
		wakes = append(wakes, wake)
	}
	*p = pending{}
	return wakes
}
