"""Tables in the forms in which results are published, for papers, pages and programs."""
