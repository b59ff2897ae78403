from squall.properties.planted.page import page

print(page(), end="")
