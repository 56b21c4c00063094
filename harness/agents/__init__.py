"""Who answers: the Agent protocol, what an agent may see, and how strategies are found."""
