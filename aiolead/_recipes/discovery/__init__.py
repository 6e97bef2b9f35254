"""Service discovery: which instances offer a service, and which one to ask.

service_registry   the recipe: registering instances, and the view of a service
instance           an instance of a service, and its JSON as in Curator's service discovery
picker             picks an instance for each request, without those that fail; the strategies
"""
